package fleet

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-hub/trellis/hack/fleetsim"
	"github.com/trellis-hub/trellis/hack/perf/figures"
	"github.com/trellis-hub/trellis/hack/perf/rig"
	"github.com/trellis-hub/trellis/hack/shoot20"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// Options of a run.
type Options struct {
	// Targets is how many there are.
	Targets int
	// Objects is how many each has: 60 to 300, in steps of 15.
	Objects int
	// Steps are those to go through, in their own order; fill and apply always are. Empty: all, but for controllers.
	Steps []string
	// Controllers fills the targets with what controllers that work in targets look at, and adds the step controllers.
	Controllers bool
	// Window is how long a measurement of drift takes, and Rest one of rest.
	Window, Rest time.Duration
	// Struck is the part of the targets that hang, and that vanish in an outage, in percent.
	Struck int
	// Rounds is how often the same targets vanish and come back in an outage.
	Rounds int
	// Flood is how many further ManagedResources one target gets that all change at once.
	Flood int
	// Void is how long after a new token was written to the source the old one is void.
	Void time.Duration
	// Rate is how many edits a second there are.
	Rate float64
	// Extra is how many further targets are registered.
	Extra int
	// Patience is how long everything may take that all targets take part in.
	Patience time.Duration
	// Limit is how long the run may take. What is not done by then is left out, and the run fails.
	Limit time.Duration
	// Config is YAML that is added to the configuration of the hub, for trying out.
	Config string
	// Profile is where profiles of the hub's processor time go. Empty: none are taken.
	Profile string
}

// Flags adds the options to a set of flags.
func (o *Options) Flags(flags *flag.FlagSet) {
	flags.IntVar(&o.Targets, "targets", 1000, "simulated targets")
	flags.IntVar(&o.Objects, "objects", 300, "objects in each, 60 to 300, in ManagedResources of 15")
	flags.Func("steps", "what to measure, separated by commas: "+strings.Join(names(), ","), func(s string) error {
		o.Steps = strings.Split(s, ",")
		for _, name := range o.Steps {
			if !slices.Contains(names(), name) {
				return fmt.Errorf("there is no step %q, only %s", name, strings.Join(names(), ", "))
			}
		}
		return nil
	})
	flags.BoolVar(&o.Controllers, "controllers", false,
		"fill the targets for the controllers that work in them, and add the step controllers")
	flags.DurationVar(&o.Window, "window", time.Minute, "length of a measurement of drift")
	flags.DurationVar(&o.Rest, "rest", 3*time.Minute, "length of a measurement of rest")
	flags.IntVar(&o.Struck, "struck", 30, "percent of the targets that hang, and that vanish in the outage")
	flags.IntVar(&o.Rounds, "rounds", 3, "how often the same targets vanish and come back in the outage")
	flags.IntVar(&o.Flood, "flood", 2000, "further ManagedResources of one target that all change at once")
	flags.DurationVar(&o.Void, "void", time.Second, "how long after a new token is written to the source the old one is void")
	flags.Float64Var(&o.Rate, "rate", 40, "edits a second")
	flags.IntVar(&o.Extra, "extra", 100, "further targets that are registered")
	flags.DurationVar(&o.Patience, "patience", 45*time.Minute, "how long anything may take that all targets take part in")
	flags.DurationVar(&o.Limit, "limit", 2*time.Hour, "how long the run may take; what is not done by then is left out, and the run fails")
	flags.StringVar(&o.Config, "config", "", "YAML that is added to the configuration of the hub, to try something out")
	flags.StringVar(&o.Profile, "profile", "", "directory for profiles of the hub's processor time: at rest, after that was measured, while targets vanish and when they are back (of the simulated targets, too), with execution traces, and while it starts again")
}

// steps of a run, in their order.
var steps = []struct {
	name string
	do   func(*run, context.Context, *figures.Step) error
}{
	{"fill", (*run).fill},
	{"apply", (*run).apply},
	{"rollout", (*run).rollOut},
	{"memory", (*run).memory},
	{"rest", (*run).rest},
	{"connect", (*run).connect},
	{"drift", (*run).drift},
	{"change", (*run).change},
	{"rotate", (*run).rotate},
	{"outage", (*run).outage},
	{"hang", (*run).hang},
	{"flood", (*run).flood},
	{"restart", (*run).restart},
	{"unprobed", (*run).unprobed},
	{controllersStep, (*run).controllers},
}

func names() []string {
	out := make([]string, 0, len(steps))
	for _, s := range steps {
		out = append(out, s.name)
	}
	return out
}

// wanted are the steps to go through.
func (o Options) wanted() (wanted []string) {
	for _, name := range names() {
		switch {
		case name == controllersStep:
			if !o.Controllers {
				continue
			}
		case len(o.Steps) > 0 && !slices.Contains(append([]string{"fill", "apply"}, o.Steps...), name):
			continue
		}
		wanted = append(wanted, name)
	}
	return wanted
}

// run is a run under way.
type run struct {
	options Options
	*rig.Rig
	report    *figures.Report
	fixture   *shoot20.Fixture
	bundles   int // ManagedResources of a target
	targets   []*fleetsim.Target
	base      int     // objects in a target before the hub comes
	absent    float64 // watches of all targets for kinds that these do not have
	foreigner *rig.Foreigner
	reference *rig.Reference
}

// all is the number of objects in all targets.
func (r *run) all() int { return r.options.Objects * len(r.targets) }

// Run goes through the steps and completes the report, also if it fails.
func Run(ctx context.Context, root string, o Options, report *figures.Report) (err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, o.Limit, fmt.Errorf("the run was to take %s at most", o.Limit))
	defer cancel()
	r, end, err := begin(ctx, root, o, report)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	wanted := r.options.wanted()
	done := 0
	for _, s := range steps {
		if !slices.Contains(wanted, s.name) {
			continue
		}
		r.Say("step %d of %d: %s", done+1, len(wanted), s.name)
		step := report.Begin(s.name)
		err := s.do(r, ctx, step)
		step.End()
		if err != nil {
			step.Note("it did not come to its end")
			step.Note("done: %s; not done: %s", strings.Join(wanted[:done], ", "), strings.Join(wanted[done:], ", "))
			return fmt.Errorf("%s: %w\n%s", s.name, err, r.Log())
		}
		done++
		r.Say("%s took %.0f s", s.name, step.Seconds)
	}
	return nil
}

// referenceTargets is how many have a reference.
const referenceTargets = 3

// begin sets everything up but what steps do.
func begin(ctx context.Context, root string, o Options, report *figures.Report) (*run, func() error, error) {
	o.Controllers = o.Controllers || slices.Contains(o.Steps, controllersStep)
	r := &run{options: o, report: report, fixture: shoot20.New(shoot20.Options{})}
	const bundle = 15
	r.bundles = o.Objects / bundle
	if o.Objects%bundle != 0 || o.Objects < 4*bundle || o.Objects > r.fixture.Count() {
		return nil, nil, fmt.Errorf("there can be 60 to %d objects in a target, in steps of %d, not %d", r.fixture.Count(), bundle, o.Objects)
	}
	var err error
	if r.options.Config, err = merged(o.Config); err != nil { // the rig adds it to lines of its own
		return nil, nil, err
	}
	simulated := fleetsim.Options{Targets: o.Targets, Seed: 1}
	if o.Controllers {
		if simulated.Snapshot, err = populated(); err != nil {
			return nil, nil, err
		}
	}
	if r.Rig, err = rig.Start(ctx,
		rig.Options{Root: root, Results: rig.Results(root), Fleet: simulated, Progress: os.Stderr}); err != nil {
		return nil, nil, err
	}
	r.targets = r.Fleet.Targets()
	var victims []rig.Victim
	for _, mr := range r.fixture.ManagedResources("")[:r.bundles] {
		victims = append(victims, rig.Victims(mr.Objects)...)
	}
	r.foreigner = rig.NewForeigner(victims)
	refer, cancel := context.WithCancel(ctx)
	reference, wait, err := rig.NewReference(refer, r.targets[:min(referenceTargets, len(r.targets))])
	end := func() error {
		cancel()
		wait()
		return r.Stop()
	}
	if err != nil {
		return nil, nil, errors.Join(err, end())
	}
	r.reference, r.base = reference, r.targets[len(r.targets)-1].Server().Count()
	return r, end, nil
}

// managedResources refers to all of them.
func (r *run) managedResources() []testbed.Ref {
	refs := make([]testbed.Ref, 0, r.bundles*len(r.targets))
	bundles := r.fixture.ManagedResources("")[:r.bundles] // making them takes as long as a target
	for _, target := range r.targets {
		for _, mr := range bundles {
			refs = append(refs, testbed.ManagedResourceRef(rig.Namespace(target), mr.Name))
		}
	}
	return refs
}

// source is what the source has for a target.
func (r *run) source(target *fleetsim.Target) []client.Object {
	objects := r.fixture.Source(rig.Namespace(target), target.Name())[:2*r.bundles]
	if r.options.Controllers {
		objects = slices.Concat(objects, accesses(rig.Namespace(target)))
	}
	return objects
}

func mib(bytes int64) float64 { return float64(bytes) / (1 << 20) }
