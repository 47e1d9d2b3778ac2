package faults

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/hack/fleetsim"
	"github.com/trellis-hub/trellis/hack/fleetsim/journal"
	"github.com/trellis-hub/trellis/hack/perf/figures"
	"github.com/trellis-hub/trellis/hack/perf/rig"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// Options of a run.
type Options struct {
	// Healthy is how many targets have no faults.
	Healthy int
	// Filter picks cells of the matrix by "<fault>/<phase>". Nil: all.
	Filter *regexp.Regexp
	// Window is how long latencies are measured, with a fault and without. Zero: they are not, and a fault lasts a second.
	Window time.Duration
	// Rate is how many edits a second there are in healthy targets.
	Rate float64
	// Patience is how long a faulty target may take to recover.
	Patience time.Duration
	// Progress gets a line for each step. Nil: nothing is written.
	Progress io.Writer
}

// Flags adds the options to a set of flags.
func (o *Options) Flags(flags *flag.FlagSet) {
	flags.IntVar(&o.Healthy, "healthy", 20, "targets without faults")
	flags.Func("run", "regular expression for the cells to go through, by <fault>/<phase>; all by default", func(s string) (err error) {
		o.Filter, err = regexp.Compile(s)
		return err
	})
	flags.DurationVar(&o.Window, "window", 12*time.Second, "how long latencies are measured with a fault, and without; 0: not at all, and a fault lasts a second")
	flags.Float64Var(&o.Rate, "rate", 20, "edits a second")
	flags.DurationVar(&o.Patience, "patience", time.Minute, "how long a faulty target may take to recover")
	o.Progress = os.Stderr
}

// run is a run under way.
type run struct {
	*rig.Rig
	options   Options
	report    *figures.Report
	healthy   []*fleetsim.Target
	foreigner *rig.Foreigner // of faulty targets
	crowd     *rig.Foreigner // of healthy ones
	reference *rig.Reference
	changes   int
	values    map[string]string // content that healthy targets were given last, by target; written between two windows only
	last      rig.Drift         // the latest baseline
}

// contents of faulty targets.
var contents = []string{rig.Steady, rig.Changing, rig.Shrinking, rig.Going, rig.Custom}

// Run goes through the matrix and completes the report, also if it fails.
func Run(ctx context.Context, root string, o Options, report *figures.Report) (err error) {
	r := &run{options: o, report: report, values: map[string]string{}, foreigner: rig.NewForeigner(rig.VictimsOf(rig.Steady)), crowd: rig.NewForeigner(rig.VictimsOf(rig.Crowd...))}
	if r.Rig, err = rig.Start(ctx, rig.Options{
		Root: root, Results: rig.Results(root), Fleet: fleetsim.Options{Targets: o.Healthy, Seed: 1, Prefix: "healthy-"}, Progress: o.Progress,
	}); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Stop()) }()
	r.healthy = r.Fleet.Targets()
	refer, cancel := context.WithCancel(ctx)
	reference, wait, err := rig.NewReference(refer, r.healthy[:min(3, len(r.healthy))])
	defer func() { cancel(); wait() }()
	if err != nil {
		return err
	}
	r.reference = reference
	if err := r.StartHub(ctx, ""); err != nil {
		return err
	}
	began := time.Now()
	if err := r.Bring(ctx, r.healthy, 5*o.Patience, append(rig.Crowd, rig.Steady, rig.Changing)...); err != nil {
		return fmt.Errorf("%w\n%s", err, r.Log())
	}
	if o.Window > 0 {
		if r.last, err = r.window(ctx); err != nil {
			return err
		}
	}
	cells := 0
	for _, d := range disorders {
		columns := slices.DeleteFunc(slices.Clone(phases), func(p phase) bool { return o.Filter != nil && !o.Filter.MatchString(d.name+"/"+p.name) })
		if len(columns) == 0 {
			continue
		}
		cells += len(columns)
		if err := r.row(ctx, d, columns); err != nil {
			return fmt.Errorf("%s: %w\n%s", d.name, err, r.Log())
		}
	}
	if cells == 0 {
		return errors.New("the filter leaves no cell of the matrix")
	}
	r.sum(cells)
	step := report.Begin("healthy targets, all the time")
	r.judge(step, began, r.healthy, nil, true)
	step.End()
	return nil
}

// cell is what became of one.
type cell struct {
	phase  phase
	target *fleetsim.Target
	took   time.Duration // from the lifting of the fault; zero if it was done before
	err    error
}

// row goes through the phases of a fault.
func (r *run) row(ctx context.Context, d disorder, columns []phase) error {
	r.Say("%s", d.name)
	step := r.report.Begin(d.name)
	defer step.End()
	fleet, err := r.Extra(ctx, len(columns), fmt.Sprintf("%s-", d.name))
	if err != nil {
		return err
	}
	defer fleet.Stop()
	targets := fleet.Targets()
	cells := make([]*cell, len(columns))
	var registered []*fleetsim.Target
	for i, p := range columns {
		cells[i] = &cell{phase: p, target: targets[i]}
		if p.name != "connecting" {
			registered = append(registered, targets[i])
			continue
		}
		if err := errors.Join(targets[i].AddCRD(ctx, rig.Widgets()), r.Writers.Create(ctx, rig.Contents(targets[i], contents...)...)); err != nil {
			return err
		}
	}
	began := time.Now()
	if err := r.Bring(ctx, registered, r.options.Patience, contents...); err != nil {
		return err
	}
	during, err := r.strike(ctx, d, cells)
	if err != nil {
		return err
	}
	for _, c := range cells {
		f := step.Add(c.phase.name+" recovered after", c.took.Seconds(), "s").Holds("by itself", c.err == nil).Strictly()
		if c.err != nil {
			f.Name = c.phase.name + " did not recover in"
			step.Note("%s: %v", c.phase.name, c.err)
		}
	}
	r.judge(step, began, targets, cells, false)
	if r.options.Window > 0 {
		if err := r.compare(ctx, step, d, targets, during); err != nil {
			return err
		}
	}
	r.caughtUp(ctx, step, began)
	r.judge(step, began, r.healthy, nil, true)
	if err := r.Forget(ctx, targets, r.options.Patience); err != nil {
		step.Add("targets cleaned up and forgotten", 0, "").Holds("in time", false).Strictly()
		step.Note("%v", err)
	}
	for _, target := range targets {
		r.Journal.Remove(target.Name())
	}
	return ctx.Err()
}

// strike sets the fault, begins the phases, lifts it, and waits until all have recovered.
func (r *run) strike(ctx context.Context, d disorder, cells []*cell) (during rig.Drift, err error) {
	began := time.Now()
	for _, c := range cells {
		if err := d.begin(ctx, c.target); err != nil {
			return during, err
		}
		if err := c.phase.begin(ctx, r, c.target); err != nil {
			return during, fmt.Errorf("beginning %s: %w", c.phase.name, err)
		}
	}
	over := make(chan struct{})
	var repeating sync.WaitGroup
	if d.again != nil {
		repeating.Go(func() {
			ticker := time.NewTicker(500 * time.Millisecond)
			defer ticker.Stop()
			for {
				select {
				case <-over:
					return
				case <-ticker.C:
					for _, c := range cells {
						d.again(c.target)
					}
				}
			}
		})
	}
	if r.options.Window > 0 {
		during, err = r.window(ctx)
	} else {
		err = rig.Pause(ctx, time.Second)
	}
	close(over)
	repeating.Wait()
	if err != nil {
		return during, err
	}
	var recovering sync.WaitGroup
	for _, c := range cells {
		recovering.Go(func() {
			lifted := time.Now()
			if c.err = d.end(ctx, r.Rig, c.target); c.err == nil {
				c.err = r.recovers(ctx, c, began)
			}
			c.took = time.Since(lifted)
			if c.err != nil {
				c.err = fmt.Errorf("%w; %s", c.err, r.Describe(c.target))
			}
		})
	}
	recovering.Wait()
	return during, ctx.Err()
}

// recovers waits until a target has come to the end of its phase, and serves again.
func (r *run) recovers(ctx context.Context, c *cell, began time.Time) error {
	if err := r.Until(ctx, r.options.Patience, 50*time.Millisecond, c.phase.name+" comes to its end", func() (bool, error) {
		return c.phase.done(ctx, r, c.target, began), nil
	}); err != nil {
		return err
	}
	if _, err := r.Observer.Expect(c.target.Name()+" is shown as up", []testbed.Ref{rig.TargetClusterOf(c.target)},
		up).Wait(ctx, r.Rig, r.options.Patience); err != nil {
		return err
	}
	edited := time.Now()
	if err := r.foreigner.Edit(ctx, c.target); err != nil {
		return err
	}
	if err := r.AwaitCorrections(ctx, []*fleetsim.Target{c.target}, edited, r.options.Patience); err != nil {
		return fmt.Errorf("an edit afterwards: %w", err)
	}
	return r.Until(ctx, r.options.Patience, 50*time.Millisecond, "the custom object is there", func() (bool, error) { return rig.HasCustom(ctx, c.target), nil })
}

// up reports whether a TargetCluster has the conditions of a reachable target.
func up(object client.Object) bool {
	return rig.Is(hubv1alpha1.ConditionConnected, metav1.ConditionTrue)(object) &&
		rig.Is(hubv1alpha1.ConditionAPIServerAvailable, metav1.ConditionTrue)(object)
}

// compare compares the latencies of the healthy targets to their baselines, and repeats if there is something to find.
func (r *run) compare(ctx context.Context, step *figures.Step, d disorder, targets []*fleetsim.Target, during rig.Drift) error {
	baselines, faulty := []rig.Drift{r.last}, []rig.Drift{during}
	after, err := r.window(ctx)
	if err != nil {
		return err
	}
	baselines = append(baselines, after)
	comparisons := compare(baselines, faulty)
	for round := 0; round < rounds && slices.ContainsFunc(comparisons, func(c comparison) bool { return c.verdict() != held }); round++ {
		for n := range repeats {
			r.Say("%s: once more, %d of %d, since healthy targets were slower", d.name, round*repeats+n+1, rounds*repeats)
			with, without, err := r.repeat(ctx, d, targets)
			if err != nil {
				return err
			}
			baselines, faulty = append(baselines, without), append(faulty, with)
		}
		comparisons = compare(baselines, faulty)
	}
	r.last = baselines[len(baselines)-1]
	for _, c := range comparisons {
		step.Add("healthy "+c.what, c.fault, "ms").Beside(c.base)
		c.show(step.Add("healthy "+c.what+" against baseline", c.ratio(), "x"))
	}
	step.Add("windows with the fault", float64(len(faulty)), "")
	for i, w := range baselines {
		step.Keep(fmt.Sprintf("baseline %d: drift", i), w.Millis)
		step.Keep(fmt.Sprintf("baseline %d: propagation", i), w.Reached)
		step.Keep(fmt.Sprintf("baseline %d: reference", i), w.Reference)
	}
	for i, w := range faulty {
		step.Keep(fmt.Sprintf("fault %d: drift", i), w.Millis)
		step.Keep(fmt.Sprintf("fault %d: propagation", i), w.Reached)
		step.Keep(fmt.Sprintf("fault %d: reference", i), w.Reference)
	}
	return nil
}

// judge has the journals judge what the hub wrote to targets since a time.
func (r *run) judge(step *figures.Step, since time.Time, targets []*fleetsim.Target, cells []*cell, healthy bool) {
	allowed := func(target string, c journal.Change) bool {
		for _, cell := range cells {
			if cell.target.Name() == target {
				return cell.phase.name == "pruning" && c.Name == rig.Shrinking+"-1" || cell.phase.name == "deleting" && strings.HasPrefix(c.Name, rig.Going+"-")
			}
		}
		return false
	}
	who := "faulty"
	if healthy {
		who = "healthy"
	}
	histories := make([]journal.History, 0, len(targets))
	for _, target := range targets {
		histories = append(histories, target.Journal().History())
	}
	rig.Complete(step, histories)
	histories = journal.Since(since, histories...)
	for _, check := range []struct {
		name    string
		verdict journal.Verdict
		must    bool
	}{
		{"deleted wrongly", journal.WrongDeletes(rig.ByHub, journal.Deletes{Allowed: allowed}, histories...), true},
		{"created twice", journal.CreatedTwice(rig.ByHub, nil, histories...), true},
		{"changed there and back", journal.Flapping(time.Hour, rig.ByHub, histories...), true},
		{"written again without need", journal.Repeated(rig.ByHub, histories...), healthy},
	} {
		f := step.Add(who+" targets: "+check.name, float64(len(check.verdict.Findings)), "")
		if check.must {
			f.Exactly(0).Strictly()
		}
		for _, finding := range check.verdict.Findings[:min(3, len(check.verdict.Findings))] {
			step.Note("%s: %s", check.name, finding)
		}
	}
}

// sum puts the whole matrix into one table.
func (r *run) sum(cells int) {
	step := r.report.Begin(fmt.Sprintf("the matrix: %d cells, seconds until each recovered, and ratios of healthy targets", cells))
	defer step.End()
	var header strings.Builder
	fmt.Fprintf(&header, "%-24s", "fault")
	for _, p := range phases {
		fmt.Fprintf(&header, "%11s", p.name)
	}
	fmt.Fprintf(&header, "%12s%12s%12s%12s", "drift p50", "p99", "change p50", "p99")
	step.Note("%s", header.String())
	compared, unclear := 0, 0
	for _, s := range r.report.Steps {
		if !slices.ContainsFunc(disorders, func(d disorder) bool { return d.name == s.Name }) {
			continue
		}
		var line strings.Builder
		fmt.Fprintf(&line, "%-24s", s.Name)
		for _, p := range phases {
			value := ""
			if f := s.Find(p.name + " recovered after"); f != nil {
				value = fmt.Sprintf("%.1f", f.Value)
			} else if s.Find(p.name+" did not recover in") != nil {
				value = "NEVER"
			}
			fmt.Fprintf(&line, "%11s", value)
		}
		for _, what := range []string{"drift p50", "drift p99", "propagation p50", "propagation p99"} {
			value := ""
			if f := s.Find("healthy " + what + " against baseline"); f != nil {
				value = fmt.Sprintf("%.2f", f.Value)
				switch {
				case f.Held == nil:
					value += "?"
					unclear++
				case !*f.Held:
					value += "!"
				}
				compared++
			}
			fmt.Fprintf(&line, "%12s", value)
		}
		step.Note("%s", line.String())
	}
	if compared > 0 {
		step.Note("!: slower than allowed; ?: inconclusive, since the load of the machine varied too much")
		step.Add("comparisons that are inconclusive", float64(unclear), "").AtMost(float64(compared / 4))
	}
}

// caughtUp waits until everything that was done to healthy targets is undone or done: a target that is starved
// permanently has no latencies.
func (r *run) caughtUp(ctx context.Context, step *figures.Step, since time.Time) {
	err := r.AwaitCorrections(ctx, r.healthy, since, r.options.Patience)
	pending := 0
	for _, edits := range rig.CorrectionsIn(r.healthy, since, time.Now()).Pending {
		pending += len(edits)
	}
	step.Add("healthy targets: edits never corrected", float64(pending), "").Exactly(0).Strictly()
	behind := func() int {
		return len(slices.DeleteFunc(slices.Clone(r.healthy), func(target *fleetsim.Target) bool {
			value, changed := r.values[target.Name()]
			return !changed || rig.Has(ctx, target, rig.Changing, 0, value)
		}))
	}
	err = errors.Join(err, r.Until(ctx, r.options.Patience, 100*time.Millisecond, "all changes are in healthy targets", func() (bool, error) { return behind() == 0, nil }))
	step.Add("healthy targets: changes never applied", float64(behind()), "").Exactly(0).Strictly()
	if err != nil {
		step.Note("%v", err)
	}
}
