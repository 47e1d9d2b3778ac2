package hostile

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/hack/fleetsim"
	"github.com/trellis-hub/trellis/hack/perf/figures"
	"github.com/trellis-hub/trellis/hack/perf/rig"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// Options of a run.
type Options struct {
	// Honest is how many honest targets there are beside.
	Honest int
	// Filter picks attacks by "<row>/<name>". Nil: all.
	Filter *regexp.Regexp
	// Quick leaves all but a representative selection out.
	Quick bool
	// Window is how long an attack lasts, unless it says otherwise itself.
	Window time.Duration
	// Long has attacks last that need minutes.
	Long bool
	// Rate is how many edits a second there are in honest targets.
	Rate float64
	// Limit is how much memory a hub may have, in bytes. One that has more is ended.
	Limit int64
	// Hub is the binary. Empty: it is built.
	Hub string
	// Profiles is the folder for a profile of the heap of each hub that cost too much. Empty: none are written.
	Profiles string
	// Patience is how long anything may take that one waits for.
	Patience time.Duration
	// Progress gets a line for each step. Nil: nothing is written.
	Progress io.Writer
}

// Flags adds the options to a set of flags.
func (o *Options) Flags(flags *flag.FlagSet) {
	flags.IntVar(&o.Honest, "honest", 20, "honest targets beside")
	const run = "regular expression for the attacks, by <row>/<name>; all by default"
	flags.Func("run", run, func(s string) (err error) {
		o.Filter, err = regexp.Compile(s)
		return err
	})
	flags.BoolVar(&o.Quick, "quick", false, "only a representative selection of the attacks")
	flags.DurationVar(&o.Window, "window", 15*time.Second, "how long an attack lasts, unless it says otherwise")
	flags.BoolVar(&o.Long, "long", false, "attacks that need minutes last for as long")
	flags.Float64Var(&o.Rate, "rate", 20, "edits a second in honest targets")
	flags.Int64Var(&o.Limit, "limit", 1<<30, "memory of a hub, in bytes: the memory limit of the chart")
	flags.StringVar(&o.Hub, "hub", "", "binary of the hub; empty: it is built")
	flags.StringVar(&o.Profiles, "profiles", "", "folder for a profile of the heap of each hub that cost too much")
	flags.DurationVar(&o.Patience, "patience", 3*time.Minute, "how long anything may take that one waits for")
	o.Progress = os.Stderr
}

const (
	// oneTarget and manyTargets are what a hostile target, and ten of them in a namespace, may cost a hub, in bytes.
	oneTarget   = 100 << 20
	manyTargets = 300 << 20
	// allRows is what one attack of each row may cost, each in a namespace of its own.
	allRows = 400 << 20
	// slowdown is how many times its baseline the drift of honest targets may take, and floor what it may take in any
	// case, in milliseconds: the hub, its source and all targets share a few processors.
	slowdown = 1.2
	floor    = 1000
	// connectFloor is how long an honest target may take to be connected in any case, in seconds.
	connectFloor = 5
	// silence is how old the heartbeat of the leader may be, in seconds. It is renewed every ten.
	silence = 60
	// impatient has /healthz fail soon after a loop is stuck, for attacks that are shorter than the default.
	impatient = "controllers: {heartbeat: {renewInterval: 1s, livenessStuckAfter: 20s}}\n"
	// share of the memory limit that the runtime of the hub is given, as the chart does it.
	share = 0.9
	// settling is how long honest targets are edited before anything is measured.
	settling = 3 * time.Second
)

// contents of honest targets.
var contents = append(slices.Clone(rig.Crowd), rig.Changing)

// attack is one that a hub is to survive.
type attack struct {
	// row of the table in package doc.
	row  int
	name string
	// budget is what it may cost a hub, in bytes.
	budget int64
	// window is how long it lasts. Zero: as the options say.
	window time.Duration
	// long is how long it lasts if minutes are allowed. Zero: no longer.
	long time.Duration
	// stalls says that it aims at what liveness depends on. Its hubs are ones whose /healthz fails soon. A quick run,
	// which judges no times, has the same hubs for all.
	stalls bool
	// before has it begin before the hubs start: what it leaves in the source stays through restarts.
	before bool
	// begin begins it.
	begin func(context.Context, *scene) error
	// goesOn is done for as long as it lasts, after begin. Nil: nothing.
	goesOn func(context.Context, *scene) error
	// check says at the end what is wrong besides what is looked at anyway. Nil: nothing.
	check func(context.Context, *scene) error
	// calls says that it needs no hostile answer: it does not come from a target.
	calls bool
	// quick says that it is one of the representative selection.
	quick bool
}

func (a attack) id() string { return fmt.Sprintf("%d/%s", a.row, a.name) }

// run is a run under way.
type run struct {
	*rig.Rig

	options   Options
	report    *figures.Report
	identity  *identity
	honest    []*fleetsim.Target
	foreigner *rig.Foreigner
	hubs      []*process
	scenes    int
	newcomers int
	baseline  outcome
	starts    []int64 // peaks of the hubs while they started
	rows      []row
}

// outcome is what was measured while an attack lasted.
type outcome struct {
	peaks     []int64 // of leader and standby, in bytes
	starts    []int64 // the same while they started
	millis    []float64
	connected []float64 // seconds
	pages     []page
	ended     []string
}

func (o outcome) p99() float64 { return figures.Quantile(o.millis, 0.99) }

func (o outcome) connect() float64 { return figures.Quantile(o.connected, 1) }

// Run goes through the attacks and completes the report, also if it fails.
func Run(ctx context.Context, root string, o Options, report *figures.Report) (err error) {
	r := &run{options: o, report: report, foreigner: rig.NewForeigner(rig.VictimsOf(rig.Crowd...))}
	if r.identity, err = newIdentity(); err != nil {
		return err
	}
	chosen := r.chosen()
	if len(chosen) == 0 {
		return errors.New("the filter leaves no attack")
	}
	dir, err := os.MkdirTemp("", "hostile-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	binary, err := bounded(ctx, root, dir, o)
	if err != nil {
		return err
	}
	if r.Rig, err = rig.Start(ctx, rig.Options{
		Root: root, Results: rig.Results(root), Binary: binary, Progress: o.Progress,
		Fleet:       fleetsim.Options{Targets: o.Honest, Seed: 1, Prefix: "honest-"},
		Environment: []string{fmt.Sprintf("GOMEMLIMIT=%d", int64(share*float64(o.Limit)))},
	}); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.stopHubs(), r.Stop()) }()
	r.honest = r.Fleet.Targets()
	if err := r.StartHub(ctx, ""); err != nil {
		return err
	}
	if err := r.Bring(ctx, r.honest, 5*o.Patience, contents...); err != nil {
		return fmt.Errorf("%w\n%s", err, r.Log())
	}
	if err := r.StopHub(); err != nil {
		return err
	}
	baseline := attack{name: "baseline", calls: true, window: max(o.Window, 20*time.Second)}
	for i, a := range append([]attack{baseline}, chosen...) {
		if o.Quick && i == 0 {
			a.window = o.Window
		}
		if err := r.play(ctx, a, i == 0); err != nil && (i == 0 || ctx.Err() != nil) {
			return fmt.Errorf("%s: %w\n%s", a.id(), err, r.Log())
		} else if err != nil {
			r.rows = append(r.rows, row{name: a.id() + ": it could not be played", held: "BROKEN"})
		}
	}
	r.sum()
	return nil
}

// bounded is a command that runs the hub with a bound on its memory besides the one that it is watched for: while it
// starts, it is not watched yet.
func bounded(ctx context.Context, root, dir string, o Options) (string, error) {
	hub := o.Hub
	if hub == "" {
		var err error
		if hub, err = testbed.BuildInto(ctx, root, dir); err != nil {
			return "", err
		}
	}
	hub, err := filepath.Abs(hub)
	if err != nil {
		return "", fmt.Errorf("binary of the hub: %w", err)
	}
	command := filepath.Join(dir, "bounded")
	script := fmt.Sprintf("#!/bin/sh\nulimit -d %d\nexec '%s' \"$@\"\n", 2*o.Limit>>10, hub)
	if err := os.WriteFile(command, []byte(script), 0o700); err != nil { //nolint:gosec // it is to be run
		return "", fmt.Errorf("command of the hub: %w", err)
	}
	return command, nil
}

// chosen are the attacks that the options leave.
func (r *run) chosen() []attack {
	return slices.DeleteFunc(attacks(), func(a attack) bool {
		return r.options.Quick && !a.quick || r.options.Filter != nil && !r.options.Filter.MatchString(a.id())
	})
}

// play plays one attack, with hubs of its own. A quick run has the same hubs for all, unless they end.
func (r *run) play(ctx context.Context, a attack, baseline bool) (err error) {
	r.Say("%s", a.id())
	step := r.report.Begin(a.id())
	defer step.End()
	s, err := r.newScene(ctx)
	if err != nil {
		return err
	}
	// Servers stay until the hubs have ended, which then do not wait for them in vain.
	defer func() {
		if !r.options.Quick || err != nil || !r.well() {
			failed := r.stopHubs()
			step.Add("hubs that end in order", 0, "").Holds("all", failed == nil)
			if failed != nil {
				step.Note("%v", failed)
			}
		}
		s.end()
		for _, namespace := range s.namespaces() {
			err = errors.Join(err, r.remove(context.WithoutCancel(ctx), namespace))
		}
		if err != nil {
			step.Add("attack", 0, "").Holds("can be played", false).Strictly()
			step.Note("%v", err)
		}
	}()
	if a.before {
		if err := a.begin(ctx, s); err != nil {
			return err
		}
	}
	began := time.Now()
	var out outcome
	if failed := r.startHubs(ctx, a); failed != nil && (!a.before || ctx.Err() != nil) {
		return failed
	} else if failed != nil {
		out.ended = []string{failed.Error()}
	} else if out, err = r.measure(ctx, a, s); err != nil {
		return err
	}
	if baseline {
		out.starts = r.starts
		r.baseline = out
	}
	return r.judge(ctx, step, a, s, out, began)
}

// startHubs starts a leader and a standby, and waits until honest targets are connected and watched. With an attack
// that began before, that is what it may delay.
func (r *run) startHubs(ctx context.Context, a attack) error {
	if r.well() { // a quick run continues with those that it has
		for _, p := range r.hubs {
			p.reset()
		}
		return nil
	}
	// The Lease of a hub that was ended is not free for a while.
	in := client.InNamespace(testbed.HubNamespace)
	if err := r.Source.Client.DeleteAllOf(ctx, &coordinationv1.Lease{}, in); err != nil {
		return fmt.Errorf("deleting Leases of the hub: %w", err)
	}
	sections := ""
	if a.stalls && !r.options.Quick {
		sections = impatient
	}
	if err := r.StartHub(ctx, sections); err != nil {
		return err
	}
	r.hubs = append(r.hubs, watched(ctx, r.Hub, "leader", r.options.Limit))
	standby, err := r.StartBeside(ctx, sections)
	if err != nil {
		return err
	}
	r.hubs = append(r.hubs, watched(ctx, standby, "standby", r.options.Limit))
	if a.before {
		return nil
	}
	if err := r.connected(ctx); err != nil {
		return err
	}
	if err := r.foreigner.Pace(ctx, r.honest, r.options.Rate, settling); err != nil {
		return err
	}
	r.starts = nil
	for _, p := range r.hubs {
		r.starts = append(r.starts, p.peak())
		p.reset()
	}
	return nil
}

// connected waits until both hubs are connected to all honest targets, and the leader watches them.
func (r *run) connected(ctx context.Context) error {
	what := "the hubs are connected to the honest targets and all watches synced"
	return r.Until(ctx, r.options.Patience, 200*time.Millisecond, what, func() (bool, error) {
		for _, p := range r.hubs {
			n, err := p.Sum(ctx, "trellis_clustercache_targets", map[string]string{"state": "Connected"})
			if err != nil || n < float64(len(r.honest)) {
				return false, err
			}
		}
		synced, err := r.Hub.Sum(ctx, "trellis_clustercache_watches", map[string]string{"state": "synced"})
		if err != nil || synced < float64(len(r.honest)) {
			return false, err
		}
		unsynced, err := r.Hub.Sum(ctx, "trellis_clustercache_watches", map[string]string{"state": "unsynced"})
		return unsynced == 0, err
	})
}

// stopHubs ends the hubs.
func (r *run) stopHubs() (err error) {
	for _, p := range slices.Backward(r.hubs) {
		err = errors.Join(err, p.stop())
	}
	if len(r.hubs) > 0 {
		r.Hub = nil
	}
	r.hubs = nil
	return err
}

// well reports whether both hubs run.
func (r *run) well() bool {
	return len(r.hubs) > 0 && !slices.ContainsFunc(r.hubs, (*process).ended)
}

// alive reports whether a hub runs.
func (r *run) alive() bool {
	return slices.ContainsFunc(r.hubs, func(p *process) bool { return !p.ended() })
}

// newcomer registers an honest target and returns after how many seconds it is shown as connected. Patience is
// returned for one that is not.
func (r *run) newcomer(ctx context.Context, s *scene) (float64, error) {
	r.newcomers++
	fleet, err := r.Extra(ctx, 1, fmt.Sprintf("newcomer-%d-", r.newcomers))
	if err != nil {
		return 0, err
	}
	defer fleet.Stop()
	target := fleet.Targets()[0]
	s.others = append(s.others, rig.Namespace(target))
	connected := rig.Is(hubv1alpha1.ConditionConnected, "True")
	expected := r.Observer.Expect("", []testbed.Ref{rig.TargetClusterOf(target)}, connected)
	defer expected.End()
	began := time.Now()
	if err := r.Writers.Register(ctx, target); err != nil {
		return 0, err
	}
	for time.Since(began) < r.options.Patience && r.alive() {
		if n, _ := expected.Open(); n == 0 {
			break
		}
		if err := rig.Pause(ctx, 10*time.Millisecond); err != nil {
			return 0, err
		}
	}
	took := time.Since(began).Seconds()
	return took, r.Writers.DeleteSecret(ctx, rig.Namespace(target), target.Registration("").Name)
}
