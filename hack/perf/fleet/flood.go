package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/trellis-hub/trellis/hack/fleetsim"
	"github.com/trellis-hub/trellis/hack/fleetsim/fault"
	"github.com/trellis-hub/trellis/hack/fleetsim/journal"
	"github.com/trellis-hub/trellis/hack/perf/figures"
	"github.com/trellis-hub/trellis/hack/perf/rig"
	"github.com/trellis-hub/trellis/hack/testbed"
)

const (
	// farAway is how long each request to the flooded target takes in the second wave.
	farAway = 300 * time.Millisecond
	// floodWriters is how many write to the source at a time.
	floodWriters = 32
)

// flood gives one target very much to do at once, and sends single changes to the others meanwhile. The target gets further
// ManagedResources, of one ConfigMap each, and all of their Secrets change: again and again, as quickly as the source takes it, and then once
// with a target that is far away. What it can do in a second is bounded then, so that there is a long lane of requests for it on any machine.
//
// The fault test that it is has 100,000 requests, and wants a single one of another cluster to begin within a second. Measured is more: the
// time from the write to the source until the object is in the target. 100,000 ManagedResources with a Secret each are 200,000 objects in
// the source, as many as 5,000 targets have, and with what the hub notes on them a million writes until they are gone again: an hour of the
// source for one minute of flood. That a lane of 100,000 delays others by no more than one of its items, the tests of the queue show
// (TestALargeLaneDelaysAnotherByOneServiceAtMost). Here it is as many as -flood says.
//
// On any machine, most of the lane that waits when a single change is sent still waits when that is there. If not, it stood in line.
func (r *run) flood(ctx context.Context, step *figures.Step) error {
	if r.options.Flood < 1 || len(r.targets) < 2 {
		return errors.New("a flood takes some ManagedResources, and two targets")
	}
	f := &flood{run: r, target: r.targets[len(r.targets)-1], others: r.targets[:len(r.targets)-1]}
	for i := range r.options.Flood {
		f.names = append(f.names, fmt.Sprintf("%s%06d", floodPrefix, i))
	}
	began := time.Now()
	if err := f.bring(ctx, step); err != nil {
		return err
	}
	calm, err := f.singles(ctx, func(ctx context.Context) error { return rig.Pause(ctx, r.options.Window) })
	if err != nil {
		return err
	}
	_, calmly := took(calm.singles)
	step.AddLatencies("single change, nothing else to do", calmly, nil)

	rounds := 0
	quick, err := f.singles(ctx, func(ctx context.Context) error {
		for from := time.Now(); rounds == 0 || time.Since(from) < r.options.Window; rounds++ {
			if _, err := f.change(ctx, fmt.Sprintf("round-%d", rounds)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	step.Add("rounds in which all Secrets of the target changed", float64(rounds), "")
	judgeFlood(step, "while they change", quick, calmly)

	const last = "far-away"
	var served []service
	far, err := f.singles(ctx, func(ctx context.Context) (err error) {
		slow, err := f.target.Faults().Set(fault.Fault{Kind: fault.Latency, Delay: metav1.Duration{Duration: farAway}})
		if err != nil {
			return fmt.Errorf("%s: %w", f.target.Name(), err)
		}
		if served, err = f.change(ctx, last); err != nil {
			return err
		}
		if _, err := f.target.Faults().Clear(slow.ID); err != nil {
			return fmt.Errorf("%s: %w", f.target.Name(), err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	judgeFlood(step, "while a far one is flooded", far, calmly)
	judgeLine(step, far.singles, served)

	there, err := f.there(ctx, last)
	if err != nil {
		return err
	}
	step.Add("ConfigMaps of the flood with the last change", float64(there), "").Exactly(float64(len(f.names))).Strictly()
	removing := time.Now()
	if err := f.remove(ctx, step); err != nil {
		return err
	}
	r.judgeDeletes(step, began, func(target string, c journal.Change) bool {
		return target == f.target.Name() && c.Resource == "configmaps" && strings.HasPrefix(c.Name, floodPrefix) && !c.Time.Before(removing)
	})
	return nil
}

// floodPrefix begins the names of all that is of the flood.
const floodPrefix = "flood-"

// flood is one that is under way.
type flood struct {
	run    *run
	target *fleetsim.Target
	others []*fleetsim.Target
	// names are those of the further ManagedResources, of their Secrets and of their ConfigMaps.
	names []string
}

func (f *flood) namespace() string { return rig.Namespace(f.target) }

// each does something for each name, many at a time.
func (f *flood) each(ctx context.Context, do func(ctx context.Context, i int, name string) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(floodWriters)
	for i, name := range f.names {
		group.Go(func() error {
			if err := ctx.Err(); err != nil {
				return err
			}
			return do(ctx, i, name)
		})
	}
	return group.Wait()
}

func (f *flood) content(name, value string) *corev1.Secret {
	return testbed.Content(f.namespace(), name, "objects.yaml", testbed.ConfigMap(metav1.NamespaceDefault, name, value))
}

func (f *flood) refs() []testbed.Ref {
	refs := make([]testbed.Ref, 0, len(f.names))
	for _, name := range f.names {
		refs = append(refs, testbed.ManagedResourceRef(f.namespace(), name))
	}
	return refs
}

// bring creates what is needed for a flood.
func (f *flood) bring(ctx context.Context, step *figures.Step) error {
	began := time.Now()
	applied := f.run.Observer.Expect("what the flood is made of is applied", f.refs(), rig.Applied)
	defer applied.End()
	if err := f.each(ctx, func(ctx context.Context, _ int, name string) error {
		return f.run.Writers.Create(ctx, f.content(name, "first"), testbed.ManagedResource(f.namespace(), name, name))
	}); err != nil {
		return err
	}
	step.Add("further ManagedResources of one target", float64(len(f.names)), "")
	step.Add("time to write them to the source", time.Since(began).Seconds(), "s")
	if _, err := applied.Wait(ctx, f.run.Rig, f.run.options.Patience); err != nil {
		return err
	}
	step.Add("all of them applied", time.Since(began).Seconds(), "s")
	return nil
}

// service is what became of one change of the flood: when it was written to the source, and when it was in the target.
type service struct{ wrote, done time.Time }

// change changes all Secrets and waits until all of it is in the target.
func (f *flood) change(ctx context.Context, value string) ([]service, error) {
	began, services := time.Now(), make([]service, len(f.names))
	if err := f.each(ctx, func(ctx context.Context, i int, name string) error {
		err := f.run.Writers.UpdateSecret(ctx, f.content(name, value))
		services[i].wrote = time.Now()
		return err
	}); err != nil {
		return nil, err
	}
	// There may be thousands of writes to read.
	every := 20*time.Millisecond + time.Duration(len(f.names))*100*time.Microsecond
	return services, f.run.Until(ctx, f.run.options.Patience, every, "all changes of the flood are in the target", func() (bool, error) {
		done := map[string]time.Time{}
		for _, c := range f.target.Journal().Changes(began) {
			if rig.ByHub(c) && c.Changed && strings.HasPrefix(c.Name, floodPrefix) {
				done[c.Name] = c.Time
			}
		}
		for i, name := range f.names {
			services[i].done = done[name]
		}
		return len(done) == len(f.names), nil
	})
}

// there counts the ConfigMaps of the flood in the target that have a value. Empty: all of them.
func (f *flood) there(ctx context.Context, value string) (n int, err error) {
	body, err := f.target.Call(ctx, fleetsim.Call{Method: http.MethodGet, Path: "/api/v1/namespaces/" + metav1.NamespaceDefault + "/configmaps"})
	if err != nil {
		return 0, fmt.Errorf("ConfigMaps of %s: %w", f.target.Name(), err)
	}
	var list corev1.ConfigMapList
	if err := json.Unmarshal(body, &list); err != nil {
		return 0, fmt.Errorf("ConfigMaps of %s: %w", f.target.Name(), err)
	}
	for _, object := range list.Items {
		if strings.HasPrefix(object.Name, floodPrefix) && (value == "" || object.Data["key"] == value) {
			n++
		}
	}
	return n, nil
}

// remove removes everything that bring created.
func (f *flood) remove(ctx context.Context, step *figures.Step) error {
	began := time.Now()
	gone := f.run.Observer.Expect("what the flood was made of is gone", f.refs(), rig.Gone)
	defer gone.End()
	if err := f.each(ctx, func(ctx context.Context, _ int, name string) error {
		return f.run.Writers.DeleteManagedResources(ctx, f.namespace(), name)
	}); err != nil {
		return err
	}
	if _, err := gone.Wait(ctx, f.run.Rig, f.run.options.Patience); err != nil {
		return err
	}
	step.Add("all of them gone again", time.Since(began).Seconds(), "s")
	left, err := f.there(ctx, "")
	if err != nil {
		return err
	}
	step.Add("ConfigMaps that are left of them in the target", float64(left), "").Exactly(0).Strictly()
	return f.each(ctx, func(ctx context.Context, _ int, name string) error {
		return f.run.Writers.DeleteSecret(ctx, f.namespace(), name)
	})
}

// flooded is what single changes took while something else was done.
type flooded struct {
	singles []single
	looks   []look
}

// singles sends single changes to the others until something is done.
func (f *flood) singles(ctx context.Context, do func(context.Context) error) (out flooded, err error) {
	out.looks, err = f.run.lookWhile(ctx, func() error {
		over := make(chan struct{})
		group, ctx := errgroup.WithContext(ctx)
		group.Go(func() (err error) {
			out.singles, err = f.run.sendSingles(ctx, f.others, over)
			return err
		})
		group.Go(func() error {
			defer close(over)
			return do(ctx)
		})
		return group.Wait()
	})
	if err != nil {
		return out, err
	}
	return out, f.run.awaitSingles(ctx, out.singles)
}

// judgeFlood compares single changes during a flood with what they took before it.
func judgeFlood(step *figures.Step, when string, during flooded, before []float64) {
	depth := values(during.looks, func(l look) float64 { return l.depth })
	step.Add("requests that wait "+when+", median of some looks", figures.Median(depth), "")
	step.Add("requests that wait "+when+", the most of some looks", figures.Quantile(depth, 1), "")
	wrote, arrived := took(during.singles)
	step.AddLatencies("single change "+when, arrived, before)
	step.Find("single change " + when + ", max").AtMost(1000)
	step.Add("single change "+when+", of that the write to the source, p99", figures.Quantile(wrote, 0.99), "ms")
}

// lineLeast is how many requests of the flood have to be ahead of a single change at least for it to mean anything:
// what the target has in hand anyway is over in a moment, and comes before it.
const lineLeast = 80

// judgeLine judges whether single changes stood in line behind those of the flood. A source that takes changes no quicker than the far target
// does leaves no line to stand in, which is no fault of the hub.
func judgeLine(step *figures.Step, singles []single, services []service) {
	var shares []float64
	for _, s := range singles {
		ahead, waited := 0, 0
		for _, other := range services {
			if other.wrote.Before(s.sent) && other.done.After(s.sent) {
				ahead++
				if other.done.Before(s.arrived) {
					waited++
				}
			}
		}
		if ahead >= lineLeast {
			shares = append(shares, 100*float64(waited)/float64(ahead))
		}
	}
	step.Add("single changes with a line ahead of them", float64(len(shares)), "").Holds(">= 1", len(shares) > 0)
	line := step.Add("of the line, what came before a single change, median", figures.Median(shares), "%")
	if len(shares) > 0 {
		line.Holds("<= 50", line.Value <= 50).Strictly()
	}
}
