package scale

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/hack/demo/stage"
	"github.com/trellis-hub/trellis/hack/figures"
	"github.com/trellis-hub/trellis/hack/fleetsim/fault"
	"github.com/trellis-hub/trellis/hack/trials/rig"
)

const (
	// windowsBefore is how many windows are the baseline. Whether a collection of the hub or the source falls into one is chance.
	windowsBefore = 4
	// returning is how long what the processors do is recorded when targets come back.
	returning = 8 * time.Second
	// foundFrom is when the first of them are found dead, and foundFor how long until all are, both generously.
	foundFrom = 9 * time.Second
	foundFor  = 6 * time.Second
)

// outage lets a part of the targets vanish in a black hole and come back.
func (r *run) outage(ctx context.Context, step *figures.Step) error {
	d, err := r.divide(ctx)
	if err != nil {
		return err
	}
	defer d.end()
	vanishing := d.struck
	window := func(what string) (rig.Drift, error) { return d.window(ctx, what) }
	var before []rig.Drift
	for n := range windowsBefore {
		drift, err := window(fmt.Sprintf("before, %d of %d", n+1, windowsBefore))
		if err != nil {
			return err
		}
		before = append(before, drift)
	}

	refs := rig.TargetClustersOf(vanishing)
	down := r.Sight.Expect("the vanished targets are shown as down", refs, func(o client.Object) bool { return o != nil && !up(o) })
	defer down.End()
	began := time.Now()
	for _, target := range vanishing {
		if _, err := target.Faults().Set(fault.Fault{Kind: fault.BlackHole}); err != nil {
			return fmt.Errorf("%s: %w", target.Name(), err)
		}
	}
	profiled := r.profile(ctx, step.Name, min(startProfile, r.options.Window))
	traced := r.trace(ctx, step.Name, foundFrom, foundFor)
	during, err := window(fmt.Sprintf("while %d others vanish", len(vanishing)))
	if err != nil {
		return err
	}
	shown, err := down.Wait(ctx, r.Rig, 2*time.Minute)
	if err != nil {
		return err
	}
	after, err := window("while they are known to be down")
	if err != nil {
		return err
	}
	edited := time.Now()
	if err := r.foreigner.EditEach(ctx, vanishing); err != nil {
		return err
	}

	up := r.Sight.Expect("the vanished targets are shown as up", refs, up)
	defer up.End()
	r.Say("the vanished targets come back")
	asked, err := r.Source.Requests(ctx)
	if err != nil {
		return err
	}
	back := r.profile(ctx, step.Name+"-back", returning)
	backTargets := r.profileTargets(ctx, step.Name+"-back", returning)
	backTrace := r.trace(ctx, step.Name+"-back", 0, returning)
	cleared, processors := time.Now(), r.Accounting(ctx)
	defer processors()
	for _, target := range vanishing {
		if _, err := target.Faults().Clear(); err != nil {
			return fmt.Errorf("%s: %w", target.Name(), err)
		}
	}
	seen, err := up.Wait(ctx, r.Rig, r.options.Patience)
	if err != nil {
		return err
	}
	if err := r.AwaitCorrections(ctx, vanishing, edited, r.options.Patience); err != nil {
		return fmt.Errorf("an edit during the outage: %w", err)
	}
	corrected := time.Since(cleared)
	looks := processors()
	askedBy, err := r.Source.Requests(ctx)
	if err != nil {
		return err
	}
	again, err := window("after it")
	if err != nil {
		return err
	}

	if err := errors.Join(profiled(), traced(), back(), backTargets(), backTrace()); err != nil {
		return err
	}
	judgeOutage(step, before, []phase{{"while they vanish", during}, {"while they are down", after}})
	step.AddLatencies("drift after they are back", again.Millis, again.Reference)
	step.AddLatencies("vanished until shown as down", since(began, shown), nil)
	step.Find("vanished until shown as down, max").AtMost(30000)
	step.AddLatencies("back until shown as up", since(cleared, seen), nil)
	step.Find("back until shown as up, max").AtMost(5000)
	step.Add("back until all edits of the outage were corrected", corrected.Seconds(), "s")
	step.Note("meanwhile, second by second: %s", rig.EachSecond(looks, cleared))
	_, _, written := stage.Writes(asked, askedBy)
	step.Note("written to the source meanwhile: %v", written)
	return nil
}

// phase is a part of an outage.
type phase struct {
	name  string
	drift rig.Drift
}

// judgeOutage compares healthy targets during an outage of others with how they were before. What comes after it is no baseline: there
// is much to be done for those that are back.
func judgeOutage(step *figures.Step, before []rig.Drift, phases []phase) {
	var baseline, reference, each []float64
	var cpu time.Duration
	for _, d := range before {
		baseline, reference = slices.Concat(baseline, d.Millis), slices.Concat(reference, d.Reference)
		each = append(each, figures.Quantile(d.Millis, 0.99))
		cpu += d.CPU.Hub / time.Duration(len(before))
	}
	base := step.AddLatencies("drift before it", baseline, reference)
	step.Add("noise: p99 of the windows before it, the most to the least", slices.Max(each)/slices.Min(each), "x")
	for _, p := range phases {
		l := step.AddLatencies("drift "+p.name, p.drift.Millis, p.drift.Reference)
		if slow := p.drift.Slow(3 * base.P99); slow != "" {
			step.Note("edits %s that took thrice the p99 of before, by the second of the window: %s", p.name, slow)
		}
		step.Add("drift "+p.name+", p50 against before", l.P50/base.P50, "x")
		step.Add("drift "+p.name+", p99 against before", l.P99/base.P99, "x").AtMost(1.2)
		step.Add("hub CPU "+p.name+", against before", p.drift.CPU.Hub.Seconds()/cpu.Seconds(), "x").AtMost(1.2)
	}
}

// up tells that a TargetCluster is said to be reachable.
func up(object client.Object) bool {
	return rig.Is(hubv1alpha1.ConditionConnected, metav1.ConditionTrue)(object) &&
		rig.Is(hubv1alpha1.ConditionAPIServerAvailable, metav1.ConditionTrue)(object)
}

// since returns how long after a time each was seen, in milliseconds.
func since(began time.Time, seen map[rig.Ref]time.Time) []float64 {
	out := make([]float64, 0, len(seen))
	for _, at := range seen {
		out = append(out, figures.Milliseconds(at.Sub(began)))
	}
	return out
}
