package soak

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/trellis-hub/trellis/hack/fleetsim"
	"github.com/trellis-hub/trellis/hack/fleetsim/fault"
	"github.com/trellis-hub/trellis/hack/fleetsim/journal"
	"github.com/trellis-hub/trellis/hack/perf/figures"
	"github.com/trellis-hub/trellis/hack/perf/rig"
)

// Options of a run.
type Options struct {
	// Minutes is how long a soak takes, at least 6.
	Minutes int
	// Minute is how long a minute of a soak takes. Zero: as long as a minute.
	Minute time.Duration
	// Cycles is how many targets come and go in a run of cycles.
	Cycles int
	// Targets is how many stay.
	Targets int
	// Visitors is how many come and go at a time.
	Visitors int
	// Rate is how many edits a second there are.
	Rate float64
	// Rest is how long the hub is left alone, before and after targets come and go in a run of cycles, before its heap is looked at.
	// What targets leave there has a goal only if that is 13 minutes or more. Zero: it is not looked at.
	Rest time.Duration
	// Seed decides who is struck by what.
	Seed uint64
	// Patience is how long anything may take that one waits for.
	Patience time.Duration
	// Progress gets a line for each step. Nil: nothing is written.
	Progress io.Writer
}

// Flags adds the options of a soak to a set of flags.
func (o *Options) Flags(flags *flag.FlagSet) {
	flags.IntVar(&o.Minutes, "minutes", 60, "how long it takes, 6 at least")
	o.flags(flags)
}

// CycleFlags adds the options of cycles to a set of flags.
func (o *Options) CycleFlags(flags *flag.FlagSet) {
	flags.IntVar(&o.Cycles, "cycles", 500, "targets that come and go")
	flags.DurationVar(&o.Rest, "rest", kept, "how long the hub is left alone before and after, so that what it keeps for a time is gone from its heap; 0: it is not looked at")
	o.flags(flags)
}

func (o *Options) flags(flags *flag.FlagSet) {
	flags.IntVar(&o.Targets, "targets", 20, "targets that stay")
	flags.IntVar(&o.Visitors, "visitors", 10, "targets that come and go at a time")
	flags.Float64Var(&o.Rate, "rate", 5, "edits a second")
	flags.Uint64Var(&o.Seed, "seed", 1, "decides who is struck by what")
	flags.DurationVar(&o.Patience, "patience", 3*time.Minute, "how long anything may take that one waits for")
	o.Progress = os.Stderr
}

// run is a run under way.
type run struct {
	*rig.Rig
	options   Options
	residents []*fleetsim.Target
	victims   []rig.Victim
	foreigner *rig.Foreigner
	random    *rand.Rand
	value     int
	visits    int
	samples   []rig.Resources
	began     time.Time
	results   string // directory
	profiled  string // profile of the heap at the first sample, or at rest before targets come and go
}

// visited is what visitors have.
var visited = []string{rig.Steady, rig.Changing, rig.Shrinking, rig.Going, rig.Custom}

// begin sets everything up.
func begin(ctx context.Context, root string, o Options) (*run, error) {
	r := &run{options: o, results: rig.Results(root), victims: rig.VictimsOf(rig.Crowd...), random: rand.New(rand.NewPCG(o.Seed, 0))}
	r.foreigner = rig.NewForeigner(r.victims)
	var err error
	if r.Rig, err = rig.Start(ctx, rig.Options{
		Root: root, Results: rig.Results(root), Fleet: fleetsim.Options{Targets: o.Targets, Seed: 1, Prefix: "resident-"}, Progress: o.Progress,
	}); err != nil {
		return nil, err
	}
	r.residents = r.Fleet.Targets()
	if err = r.StartHub(ctx, ""); err == nil {
		err = r.Bring(ctx, r.residents, 5*o.Patience, append(rig.Crowd, rig.Changing, rig.Custom)...)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%w\n%s", err, r.Log()), r.Stop())
	}
	r.began = time.Now()
	return r, nil
}

// warmUp is how many rounds do not count at least; a fifth of them does not in any case. For memory, they take warmUpTime at least:
// with ten targets that go every 13 s the heap was seen to grow by some 70 KiB for each, by the profile buffers of closed
// connections, for about 90 s, and then no more.
const (
	warmUp     = 2
	warmUpTime = 2 * time.Minute
)

// enough is how many samples it takes for a slope to mean something.
const enough = 20

// Run soaks, and completes the report, also if it fails.
func Run(ctx context.Context, root string, o Options, report *figures.Report) (err error) {
	if o.Minutes < warmUp+least {
		return fmt.Errorf("a soak takes %d minutes or more", warmUp+least)
	}
	if o.Minute == 0 {
		o.Minute = time.Minute
	}
	r, err := begin(ctx, root, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Stop()) }()
	step := report.Begin("soak")
	defer step.End()
	for minute := range o.Minutes {
		if err := r.minute(ctx, minute); err != nil {
			return fmt.Errorf("minute %d: %w\n%s", minute+1, err, r.Log())
		}
	}
	judgeSamples(step, r.samples, r.began, o.Visitors)
	judgeSlope(step, r.samples, r.began)
	return r.judge(ctx, step)
}

// Cycle lets targets come and go as quickly as it goes.
func Cycle(ctx context.Context, root string, o Options, report *figures.Report) (err error) {
	r, err := begin(ctx, root, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Stop()) }()
	step := report.Begin("cycles")
	defer step.End()
	rounds := (o.Cycles + o.Visitors - 1) / o.Visitors
	var before, after settled
	steady := r.began
	for round := range rounds + warmUp {
		if round == warmUp && o.Rest > 0 {
			if before, err = r.settle(ctx); err != nil {
				return fmt.Errorf("rest before: %w\n%s", err, r.Log())
			}
			if r.profiled, err = r.profile(ctx, "begin"); err != nil {
				return err
			}
			steady = time.Now()
		}
		if err := r.alongside(ctx, r.visit); err != nil {
			return fmt.Errorf("round %d: %w\n%s", round+1, err, r.Log())
		}
		if err := r.sample(ctx); err != nil {
			return err
		}
		r.Say("%d of %d targets came and went", r.visits, (rounds+warmUp)*o.Visitors)
	}
	step.Add("targets that came and went", float64(r.visits), "")
	judgeSamples(step, r.samples, steady, o.Visitors)
	if o.Rest > 0 {
		if after, err = r.settle(ctx); err != nil {
			return fmt.Errorf("rest after: %w\n%s", err, r.Log())
		}
		judgeRest(step, before, after)
	}
	return r.judge(ctx, step)
}

// minute is one of a soak. For two thirds of it there are faults, and for one third a target is struck.
func (r *run) minute(ctx context.Context, minute int) error {
	began, busy := time.Now(), r.options.Minute*2/3
	if err := r.alongside(ctx, func(ctx context.Context) error {
		trouble, troubled := errgroup.WithContext(ctx)
		trouble.Go(func() error { return r.visit(troubled) })
		trouble.Go(func() error { return r.rotate(troubled, r.residents[minute%len(r.residents)], minute) })
		trouble.Go(func() error { return r.strike(troubled, r.residents[(minute+len(r.residents)/2)%len(r.residents)]) })
		if err := trouble.Wait(); err != nil {
			return err
		}
		return rig.Pause(ctx, time.Until(began.Add(busy)))
	}); err != nil {
		return err
	}
	if err := r.sample(ctx); err != nil {
		return err
	}
	s := r.samples[len(r.samples)-1]
	r.Say("minute %d: heap %.1f MiB, RSS %.1f MiB, %d goroutines, %d sockets, %d series", minute+1, mib(s.Heap), mib(s.RSS), s.Goroutines, s.Sockets, s.Series)
	return rig.Pause(ctx, time.Until(r.began.Add(time.Duration(minute+1)*r.options.Minute)))
}

// alongside does something while objects are edited and contents change, and returns when all of it is corrected.
func (r *run) alongside(ctx context.Context, do func(context.Context) error) error {
	began := time.Now()
	working, stop := context.WithCancel(ctx)
	group, working := errgroup.WithContext(working)
	group.Go(func() error {
		for working.Err() == nil {
			if err := r.foreigner.Pace(working, r.residents, r.options.Rate, time.Second); err != nil && working.Err() == nil {
				return err
			}
			r.value++
			target := r.residents[r.value%len(r.residents)]
			// What is under way when it is over is written all the same.
			if err := r.Writers.UpdateSecret(ctx, rig.ContentOf(target, rig.Changing, fmt.Sprintf("value-%d", r.value), 0, time.Now())); err != nil {
				return err
			}
		}
		return nil
	})
	err := do(working)
	stop()
	if err = errors.Join(err, group.Wait()); err != nil {
		return err
	}
	return r.AwaitCorrections(ctx, r.residents, began, r.options.Patience)
}

// visit lets targets come and go.
func (r *run) visit(ctx context.Context) error {
	fleet, err := r.Extra(ctx, r.options.Visitors, fmt.Sprintf("visitor-%d-", r.visits))
	if err != nil {
		return err
	}
	defer fleet.Stop()
	targets := fleet.Targets()
	if err := r.Bring(ctx, targets, r.options.Patience, visited...); err != nil {
		return err
	}
	if err := r.Forget(ctx, targets, r.options.Patience); err != nil {
		return err
	}
	for _, target := range targets {
		r.Journal.Remove(target.Name())
	}
	r.visits += len(targets)
	return nil
}

// rotate changes the credential of a target, in turns by its token and by everything.
func (r *run) rotate(ctx context.Context, target *fleetsim.Target, turn int) error {
	var err error
	if turn%2 == 0 {
		err = target.RotateToken(fleetsim.Rotation{})
	} else {
		err = target.RotateCA(fleetsim.Rotation{Revoke: turn%4 == 3})
	}
	if err != nil {
		return err
	}
	return r.Writers.UpdateSecret(ctx, target.Registration(rig.Namespace(target)))
}

// troubles are faults that come and go.
var troubles = []fault.Fault{
	{Kind: fault.BlackHole},
	{Kind: fault.Status, Code: 503},
	{Kind: fault.Reset},
	{Kind: fault.Hang, Share: 0.5},
	{Kind: fault.GoAway},
	{Kind: fault.Status, Code: 401},
	{Kind: fault.Latency, Delay: metav1.Duration{Duration: 300 * time.Millisecond}},
	{Kind: fault.SlowWatch, Delay: metav1.Duration{Duration: time.Second}},
}

// strike makes a target fail for a while.
func (r *run) strike(ctx context.Context, target *fleetsim.Target) error {
	if _, err := target.Faults().Set(troubles[r.random.IntN(len(troubles))]); err != nil {
		return err
	}
	err := rig.Pause(ctx, r.options.Minute/3)
	_, failed := target.Faults().Clear()
	return errors.Join(err, failed)
}

// sample waits until all is as it should be, and looks at what the hub has.
func (r *run) sample(ctx context.Context) error {
	if err := r.calm(ctx); err != nil {
		return err
	}
	s, err := r.Resources(ctx)
	if err != nil {
		return err
	}
	r.samples = append(r.samples, s)
	if len(r.samples) == 1 {
		r.profiled, err = r.profile(ctx, "begin")
	}
	return err
}

// calm waits until all is as it should be.
func (r *run) calm(ctx context.Context) error {
	if err := r.Until(ctx, r.options.Patience, 200*time.Millisecond, "all targets are connected and all watches synced", func() (bool, error) {
		connected, err := r.Hub.Sum(ctx, "trellis_clustercache_targets", map[string]string{"state": "Connected"})
		if err != nil || connected != float64(len(r.residents)) {
			return false, err
		}
		unsynced, err := r.Hub.Sum(ctx, "trellis_clustercache_watches", map[string]string{"state": "unsynced"})
		return unsynced == 0, err
	}); err != nil {
		return err
	}
	// Connections that were replaced drain for a moment.
	const moment = 3 * time.Second
	return rig.Pause(ctx, moment)
}

// flat is by how much what the hub has may grow over a run, as a fraction.
const flat = 0.03

// least is how many samples must count for something that is left behind by each target that came and went to stand out.
const least = 4

// counted are the samples that count, from a time on at the earliest.
func counted(samples []rig.Resources, from time.Time) []rig.Resources {
	skipped := min(max(warmUp, len(samples)/5), len(samples))
	for skipped < len(samples) && samples[skipped].Time.Before(from) {
		skipped++
	}
	return samples[skipped:]
}

// judgeSamples says whether anything is left behind. Visitors come and go between a sample and the next one, and have done so
// without a pause since a time.
func judgeSamples(step *figures.Step, samples []rig.Resources, since time.Time, visitors int) {
	for _, what := range []struct {
		name, unit string
		value      func(rig.Resources) float64
		count      bool
		exact      bool
	}{
		{"live heap", "MiB", func(s rig.Resources) float64 { return mib(s.Heap) }, false, false},
		{"RSS", "MiB", func(s rig.Resources) float64 { return mib(s.RSS) }, false, false},
		{"anonymous memory", "MiB", func(s rig.Resources) float64 { return mib(s.Anonymous) }, false, false},
		{"goroutines", "", func(s rig.Resources) float64 { return float64(s.Goroutines) }, true, false},
		{"sockets", "", func(s rig.Resources) float64 { return float64(s.Sockets) }, true, false},
		{"series of metrics", "", func(s rig.Resources) float64 { return float64(s.Series) }, true, false},
		{"series of targets", "", func(s rig.Resources) float64 { return float64(s.TargetSeries) }, true, true},
	} {
		of := func(samples []rig.Resources) (out []float64) {
			for _, s := range samples {
				out = append(out, what.value(s))
			}
			return out
		}
		step.Keep(what.name, of(samples))
		from := since.Add(warmUpTime)
		if what.count {
			from = time.Time{}
		}
		values := of(counted(samples, from))
		// The part of a run that each end is: one sample may be taken at an odd moment.
		end := max(1, len(values)/5)
		first, last := figures.Median(values[:min(end, len(values))]), figures.Median(values[max(0, len(values)-end):])
		f := step.Add(what.name+" at the end", last, what.unit).Beside(first)
		switch {
		case what.exact:
			f.Holds("as many as at the beginning", last == first).Strictly()
		case what.count:
			// Less than half of what one for each target that came and went meanwhile would be.
			between := visitors * (len(values) - end)
			allowed := min(1+flat*first, float64(between)/2)
			f.Holds(fmt.Sprintf("reference + %.1f", allowed), last-first <= allowed).Strictly()
		}
		grown := figures.Slope(values)
		f = step.Add(what.name+", slope over the run", 100*grown, "%")
		if what.count && len(values) >= enough {
			f.Holds(fmt.Sprintf("<= %.0f", 100*flat), grown <= flat).Strictly()
		}
	}
	n := len(counted(samples, time.Time{}))
	step.Add("samples", float64(n), "").Holds(fmt.Sprintf(">= %d", least), n >= least).Strictly()
	step.Add("samples of memory", float64(len(counted(samples, since.Add(warmUpTime)))), "")
	step.Note("the reference of a figure at the end is the one at the beginning: medians of the last and of the first fifth of the samples")
}

// judgeHistories reports what was done to the remaining targets that no ManagedResource asked for.
func judgeHistories(step *figures.Step, histories []journal.History) {
	rig.Complete(step, histories)
	wrong := journal.WrongDeletes(rig.ByHub, journal.Deletes{Allowed: func(string, journal.Change) bool { return false }}, histories...)
	step.Add("targets that stay: deleted wrongly", float64(len(wrong.Findings)), "").Exactly(0).Strictly()
	twice := journal.CreatedTwice(rig.ByHub, nil, histories...)
	step.Add("targets that stay: created twice", float64(len(twice.Findings)), "").Exactly(0).Strictly()
}

// judge says what became of the targets that stay, and writes what the heap holds.
func (r *run) judge(ctx context.Context, step *figures.Step) error {
	var histories []journal.History
	for _, target := range r.residents {
		histories = append(histories, target.Journal().History().Since(r.began))
	}
	judgeHistories(step, histories)
	path, err := r.profile(ctx, "end")
	if err == nil {
		step.Note("what the heap holds more than at the beginning: go tool pprof -sample_index=inuse_space -diff_base %s %s", r.profiled, path)
	}
	return err
}

// profile writes what the heap holds, and returns the path.
func (r *run) profile(ctx context.Context, when string) (string, error) {
	content, err := r.Hub.HeapProfile(ctx)
	path := filepath.Join(r.results, fmt.Sprintf("soak-%s-%s.pprof", r.began.UTC().Format("20060102-150405"), when))
	if err == nil {
		err = os.WriteFile(path, content, 0o600)
	}
	if err != nil {
		return "", fmt.Errorf("profile of the heap: %w", err)
	}
	return path, nil
}

func mib(bytes int64) float64 { return float64(bytes) / (1 << 20) }
