package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/hack/controlplane"
	"github.com/trellis-hub/trellis/hack/fleetsim/fault"
	"github.com/trellis-hub/trellis/hack/perf/figures"
	"github.com/trellis-hub/trellis/hack/perf/rig"
	"github.com/trellis-hub/trellis/hack/testbed"
)

const (
	// windowsBefore is how many windows are the baseline of what happens once.
	windowsBefore = 4
	// windowsOfRound is how many are before each round of an outage.
	windowsOfRound = 2
	// returning is how long what the processors do is recorded when targets come back.
	returning = 8 * time.Second
	// foundFrom is when the first of them are found dead, and foundFor how long until all are, both generously.
	foundFrom = 9 * time.Second
	foundFor  = 6 * time.Second
)

// outages are rounds of targets that vanish and come back, in which the others are looked at. What the machine does besides, such as collecting
// the heap of the hub, strikes some windows and spares others: windows of before stand between those of the outages, and all of a kind count as one.
type outages struct {
	before, during, after, again []rig.Drift
	// down and up are how long it took until targets were shown so, in milliseconds, and corrected until all edits of an outage were, in seconds.
	down, up, corrected []float64
}

// outage lets a part of the targets vanish in a black hole and come back, several times.
func (r *run) outage(ctx context.Context, step *figures.Step) error {
	d, err := r.divide(ctx)
	if err != nil {
		return err
	}
	defer d.end()
	var o outages
	var failed error
	for n := 1; n <= max(1, r.options.Rounds) && failed == nil; n++ {
		failed = r.vanish(ctx, step, d, n, &o)
	}
	if len(o.corrected) == 0 { // no round came to its end
		return failed
	}
	var all []*rig.Drift
	for _, windows := range [][]rig.Drift{o.before, o.during, o.after, o.again} {
		for i := range windows {
			all = append(all, &windows[i])
		}
	}
	if err := r.beside(all...); err != nil {
		return err
	}
	slow := judgeOutage(step, o.before, []phase{{"while they vanish", o.during}, {"while they are down", o.after}})
	again := joined(o.again)
	step.AddLatencies("drift after they are back", again.Millis, again.Reference)
	step.Note("%s", eachWindow("after they are back", o.again, slow))
	step.AddLatencies("vanished until shown as down", o.down, nil)
	step.Find("vanished until shown as down, max").AtMost(30000)
	step.AddLatencies("back until shown as up", o.up, nil)
	step.Find("back until shown as up, max").AtMost(5000)
	step.Add("back until all edits of the outage were corrected, the most of all rounds", slices.Max(o.corrected), "s")
	return failed
}

// vanish is one round of an outage.
func (r *run) vanish(ctx context.Context, step *figures.Step, d *division, number int, o *outages) error {
	vanishing, round := d.struck, fmt.Sprintf("round %d", number)
	window := func(to *[]rig.Drift, what string) error {
		drift, err := d.window(ctx, round+", "+what)
		if err == nil {
			*to = append(*to, drift)
		}
		return err
	}
	// What comes of a roll-out or a return for a minute would make the baseline higher than it is.
	if err := rig.Pause(ctx, min(settle, 2*r.options.Window)); err != nil {
		return err
	}
	for n := range windowsOfRound {
		if err := r.Tidy(ctx); err != nil {
			return err
		}
		if err := window(&o.before, fmt.Sprintf("before, %d of %d", n+1, windowsOfRound)); err != nil {
			return err
		}
	}

	refs := rig.TargetClustersOf(vanishing)
	if err := r.Tidy(ctx); err != nil {
		return err
	}
	down := r.Observer.Expect("the vanished targets are shown as down", refs, func(
		o client.Object) bool {
		return o != nil && !up(o)
	})
	defer down.End()
	before, err := r.Source.Requests(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	for _, target := range vanishing {
		if _, err := target.Faults().Set(fault.Fault{Kind: fault.BlackHole}); err != nil {
			return fmt.Errorf("%s: %w", target.Name(), err)
		}
	}
	name := fmt.Sprintf("%s-%d", step.Name, number)
	profiled := r.profile(ctx, name, min(startProfile, r.options.Window))
	traced := r.trace(ctx, name, foundFrom, foundFor)
	if err := window(&o.during, fmt.Sprintf("while %d others vanish", len(vanishing))); err != nil {
		return err
	}
	vanished, err := r.Source.Requests(ctx)
	if err != nil {
		return err
	}
	shown, err := down.Wait(ctx, r.Rig, 2*time.Minute)
	if err != nil {
		return err
	}
	if err := r.Tidy(ctx); err != nil {
		return err
	}
	if err := window(&o.after, "while they are known to be down"); err != nil {
		return err
	}
	edited := time.Now()
	if err := r.foreigner.EditEach(ctx, vanishing); err != nil {
		return err
	}

	up := r.Observer.Expect("the vanished targets are shown as up", refs, up)
	defer up.End()
	r.Say("%s, the vanished targets come back", round)
	if err := r.Tidy(ctx); err != nil {
		return err
	}
	asked, err := r.Source.Requests(ctx)
	if err != nil {
		return err
	}
	back := r.profile(ctx, name+"-back", returning)
	backTargets := r.profileTargets(ctx, name+"-back", returning)
	backTrace := r.trace(ctx, name+"-back", 0, returning)
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
	corrected := time.Since(cleared).Seconds()
	looks := processors()
	askedBy, err := r.Source.Requests(ctx)
	if err != nil {
		return err
	}
	if err := r.Tidy(ctx); err != nil {
		return err
	}
	if err := window(&o.again, "after it"); err != nil {
		return err
	}
	if err := errors.Join(profiled(), traced(), back(), backTargets(), backTrace()); err != nil {
		return err
	}
	o.down, o.up, o.corrected = append(o.down, since(began, shown)...), append(o.up, since(cleared, seen)...), append(o.corrected, corrected)
	_, _, meanwhile := testbed.Writes(before, vanished)
	step.Note("%s, while they vanish, written to the source, also for edits: %v", round, meanwhile)
	_, _, written := testbed.Writes(asked, askedBy)
	step.Note("%s, when they are back, second by second: %s; written to the source: %v", round, rig.EachSecond(looks, cleared), written)
	return nil
}

// joined are windows as one.
func joined(windows []rig.Drift) (all rig.Drift) {
	for _, d := range windows {
		all.Millis, all.Reference = slices.Concat(all.Millis, d.Millis), slices.Concat(all.Reference, d.Reference)
		all.CPU.Hub += d.CPU.Hub
	}
	return all
}

// phase is a part of an outage, in all rounds.
type phase struct {
	name  string
	drift []rig.Drift
}

// judgeOutage compares healthy targets during outages of others with how they were before. What comes after one is no baseline: there
// is much to be done for those that are back. It returns the p99 of before, in milliseconds.
func judgeOutage(step *figures.Step, before []rig.Drift, phases []phase) float64 {
	all := joined(before)
	cpu := all.CPU.Hub.Seconds() / float64(len(before))
	base := step.AddLatencies("drift before it", all.Millis, all.Reference)
	each := make([]float64, 0, len(before))
	for _, d := range before {
		each = append(each, figures.Quantile(d.Millis, 0.99))
	}
	step.Add("noise: p99 of the windows before it, the most to the least", slices.Max(each)/slices.Min(each), "x")
	step.Note("%s", eachWindow("before it", before, base.P99))
	for _, p := range phases {
		drift := joined(p.drift)
		l := step.AddLatencies("drift "+p.name, drift.Millis, drift.Reference)
		for n, d := range p.drift {
			if slow := d.Slow(3 * base.P99); slow != "" {
				step.Note("round %d, edits %s that took thrice the p99 of before, by the second of the window: %s", n+1, p.name, slow)
			}
		}
		step.Note("%s", eachWindow(p.name, p.drift, base.P99))
		step.Add("drift "+p.name+", p50 against before", l.P50/base.P50, "x")
		step.Add("drift "+p.name+", p99 against before", l.P99/base.P99, "x").AtMost(1.2)
		step.Add("hub CPU "+p.name+", against before", drift.CPU.Hub.Seconds()/float64(len(p.drift))/cpu, "x").AtMost(1.2)
	}
	return base.P99
}

// beside has each window know when the source's API server collected its garbage.
func (r *run) beside(windows ...*rig.Drift) error {
	collections, err := r.Source.Collections(controlplane.APIServer)
	if err != nil {
		return err
	}
	for _, d := range windows {
		d.Beside(collections)
	}
	return nil
}

// slowParts is for which parts of a window the number of slow edits is reported.
const slowParts = 3 * time.Second

// eachWindow returns the p99 of each window, for how long the source's API server collected its garbage meanwhile, and
// when edits took longer than some milliseconds.
func eachWindow(what string, windows []rig.Drift, slow float64) string {
	each := make([]string, 0, len(windows))
	for _, d := range windows {
		each = append(each, fmt.Sprintf("p99 %.1f ms (of the reference %.1f ms), the source collected for %.1f s, slower than %.1f ms in each %s: %d",
			figures.Quantile(d.Millis, 0.99), figures.Quantile(d.Reference, 0.99), d.Collected().Seconds(), slow, slowParts, d.SlowIn(slowParts, slow)))
	}
	return "the windows " + what + ": " + strings.Join(each, "; ")
}

// up reports whether a TargetCluster has the conditions of a reachable target.
func up(object client.Object) bool {
	return rig.Is(hubv1alpha1.ConditionConnected, metav1.ConditionTrue)(object) &&
		rig.Is(hubv1alpha1.ConditionAPIServerAvailable, metav1.ConditionTrue)(object)
}

// since returns how long after a time each was seen, in milliseconds.
func since(began time.Time, seen map[testbed.Ref]time.Time) []float64 {
	out := make([]float64, 0, len(seen))
	for _, at := range seen {
		out = append(out, figures.Milliseconds(at.Sub(began)))
	}
	return out
}
