package fleet

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/hack/fleetsim"
	"github.com/trellis-hub/trellis/hack/perf/figures"
	"github.com/trellis-hub/trellis/hack/perf/rig"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// drift edits objects at an even pace.
func (r *run) drift(ctx context.Context, step *figures.Step) error {
	if err := r.Tidy(ctx); err != nil {
		return err
	}
	d, err := r.Window(ctx, r.foreigner, r.reference, r.targets, r.options.Rate, r.options.Window)
	if err != nil {
		return err
	}
	if err := r.beside(&d); err != nil {
		return err
	}
	l := step.AddLatencies("drift", d.Millis, d.Reference)
	step.Note("%s", eachWindow("of drift", []rig.Drift{d}, l.P99))
	step.Find("drift, p50").AtMost(100)
	step.Find("drift, p99").AtMost(1000)
	step.Add("edits a second", float64(len(d.Millis))/r.options.Window.Seconds(), "/s")
	step.Add("hub CPU an edit", d.CPU.Hub.Seconds()*1000/float64(max(1, len(d.Millis))), "ms")
	step.Add("edits not corrected in 5 s", float64(len(d.Pending)), "targets").Exactly(0)
	if err := r.AwaitCorrections(ctx, r.targets, d.From, r.options.Patience); err != nil {
		return err
	}
	r.Say("drift p50 %.1f ms, p99 %.1f ms", l.P50, l.P99)
	// All at once.
	began := time.Now()
	if err := r.foreigner.EditEach(ctx, r.targets); err != nil {
		return err
	}
	edited := time.Now()
	if err := r.AwaitCorrections(ctx, r.targets, began, r.options.Patience); err != nil {
		return err
	}
	step.AddLatencies("one edit in each target at once", rig.CorrectionsIn(r.targets, began, edited).Millis, nil)
	return nil
}

// changeProfile is how long the processors are looked at while a change comes to all targets, if profiles are wanted.
const changeProfile = 5 * time.Second

// change changes one object in all targets.
func (r *run) change(ctx context.Context, step *figures.Step) error {
	step.Note("the reference is the time to write the change to the source for all targets")
	for _, value := range []string{"first", "second", "third"} {
		asked, err := r.Source.Requests(ctx)
		if err != nil {
			return err
		}
		profiled := r.profile(ctx, step.Name+"-"+value, changeProfile)
		targets := r.profileTargets(ctx, step.Name+"-"+value, changeProfile)
		began, processors := time.Now(), r.Accounting(ctx)
		c, err := r.changeEverywhere(ctx, value)
		looks := processors()
		askedBy, failed := r.Source.Requests(ctx)
		if err := errors.Join(err, failed, profiled(), targets()); err != nil {
			return err
		}
		step.Add(value+" change in the last target", c.arrived.Seconds(), "s").AtMost(5).Beside(c.written.Seconds())
		if len(looks) > 1 {
			used, n := looks[len(looks)-1].Since(looks[0]), float64(len(r.targets))
			step.Add(value+" change, hub CPU for each target", figures.Milliseconds(used.Hub)/n, "ms")
			step.Add(value+" change, CPU of the source for each target", figures.Milliseconds(used.Source)/n, "ms")
			step.Add(value+" change, CPU of all simulated targets and who writes the change, for each target", figures.Milliseconds(used.Trial)/n, "ms")
		}
		_, _, written := testbed.Writes(asked, askedBy)
		step.Note("%s change, second by second: %s; written to the source: %v", value, rig.EachSecond(looks, began), written)
	}
	return nil
}

// changed is how long a change of all targets took until it was in the source for all of them, and until it was in the last of them.
type changed struct{ written, arrived time.Duration }

// changeEverywhere changes one object in all targets and waits until that is there.
func (r *run) changeEverywhere(ctx context.Context, value string) (c changed, err error) {
	sent := time.Now()
	if err := r.changeIn(ctx, r.targets, value, sent); err != nil {
		return c, err
	}
	c.written = time.Since(sent)
	err = r.Until(ctx, r.options.Patience, time.Second, "the change is in all targets", func() (bool, error) {
		// Extra targets that came and went have journals, too.
		return r.Journal.Reached(sent).Targets >= len(r.targets), nil
	})
	c.arrived = r.Journal.Reached(sent).Last
	return c, err
}

// changeIn sends a change of one object to targets.
func (r *run) changeIn(ctx context.Context, targets []*fleetsim.Target, value string, sent time.Time) error {
	return rig.EachOf(ctx, targets, nil, func(ctx context.Context, target *fleetsim.Target) error {
		return r.Writers.UpdateSecret(ctx, r.fixture.Change(rig.Namespace(target), target.Name(), value, sent))
	})
}

// connect registers further targets, one after the other.
func (r *run) connect(ctx context.Context, step *figures.Step) error {
	extra, err := r.Extra(ctx, r.options.Extra, "extra-")
	if err != nil {
		return err
	}
	defer extra.Stop()
	targets := extra.Targets()
	const name = "first"
	for _, target := range targets {
		ns := rig.Namespace(target)
		if err := r.Writers.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}},
			testbed.Content(ns, name, "objects.yaml", testbed.ConfigMap("default", name, "value")),
			testbed.ManagedResource(ns, name, name)); err != nil {
			return err
		}
	}
	refs := rig.TargetClustersOf(targets)
	connected := r.Observer.Expect("the further targets are connected", refs, func(object client.Object) bool {
		return rig.Is(hubv1alpha1.ConditionConnected, metav1.ConditionTrue)(object)
	})
	created := map[string]time.Time{}
	var asked []float64
	for _, target := range targets {
		created[target.Name()] = time.Now()
		if err := r.Writers.Create(ctx, target.Registration(rig.Namespace(target))); err != nil {
			return err
		}
		took, err := rig.Ask(ctx, target)
		if err != nil {
			return err
		}
		asked = append(asked, figures.Milliseconds(took))
		if err := rig.Pause(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
	seen, err := connected.Wait(ctx, r.Rig, r.options.Patience)
	if err != nil {
		return err
	}
	var shown, usable []float64
	for i, target := range targets {
		shown = append(shown, figures.Milliseconds(seen[refs[i]].Sub(created[target.Name()])))
		var first time.Time
		if err := r.Until(ctx, r.options.Patience, 20*time.Millisecond, target.Name()+" is written to", func() (bool, error) {
			for _, change := range target.Journal().History().Changes {
				if rig.ByHub(change) {
					first = change.Time
					return true, nil
				}
			}
			return false, nil
		}); err != nil {
			return err
		}
		usable = append(usable, figures.Milliseconds(first.Sub(created[target.Name()])))
	}
	step.AddLatencies("registered until shown as Connected", shown, asked)
	step.Find("registered until shown as Connected, p99").AtMost(2000)
	step.AddLatencies("registered until the first write", usable, asked)
	step.Find("registered until the first write, p99").AtMost(2000)
	step.Note("the reference is a client that connects and asks for one object")
	if err := r.Forget(ctx, targets, r.options.Patience); err != nil {
		return err
	}
	for _, target := range targets {
		r.Journal.Remove(target.Name())
	}
	return nil
}
