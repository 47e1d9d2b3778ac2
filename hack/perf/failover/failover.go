package failover

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/trellis-hub/trellis/hack/fleetsim"
	"github.com/trellis-hub/trellis/hack/fleetsim/journal"
	"github.com/trellis-hub/trellis/hack/perf/figures"
	"github.com/trellis-hub/trellis/hack/perf/rig"
	"github.com/trellis-hub/trellis/hack/shoot20"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// Options of a run.
type Options struct {
	// Kills is how often a leader is ended.
	Kills int
	// Targets is how many there are.
	Targets int
	// Rate is how many edits a second there are.
	Rate float64
	// Seed decides when leaders are ended.
	Seed uint64
	// Ways are those of ending a leader, in turns and separated by commas. Empty: term,kill,stop,term,kill.
	Ways string
	// Awake is how long a leader that was stopped is watched after it continues.
	Awake time.Duration
	// Patience is how long anything may take.
	Patience time.Duration
	// Progress gets a line for each step. Nil: standard error.
	Progress io.Writer
}

// Flags adds the options to a set of flags.
func (o *Options) Flags(flags *flag.FlagSet) {
	flags.IntVar(&o.Kills, "kills", 50, "how often a leader is ended")
	flags.IntVar(&o.Targets, "targets", 20, "simulated targets, with 300 objects each")
	flags.Float64Var(&o.Rate, "rate", 40, "edits a second")
	flags.Uint64Var(&o.Seed, "seed", 1, "decides when leaders are ended")
	flags.StringVar(&o.Ways, "ways", "", "how leaders are ended, in turns: term, kill, stop (default term,kill,stop,term,kill)")
	flags.DurationVar(&o.Awake, "awake", 3*time.Second, "how long a leader that was stopped is watched after it continues")
	flags.DurationVar(&o.Patience, "patience", 5*time.Minute, "how long anything may take")
}

// way of ending a leader.
type way struct {
	name   string
	signal syscall.Signal
	goal   time.Duration // until its successor writes; zero: none is set
}

var (
	term = way{"term", syscall.SIGTERM, 3 * time.Second}
	kill = way{"kill", syscall.SIGKILL, 20 * time.Second}
	stop = way{"stop", syscall.SIGSTOP, 0}
	ways = []way{term, kill, stop}
	// turns are the ways in the order in which they are used by default.
	turns = []way{term, kill, stop, term, kill}
)

// turnsOf finds ways by their names.
func turnsOf(names string) ([]way, error) {
	if names == "" {
		return turns, nil
	}
	var found []way
	for name := range strings.SplitSeq(names, ",") {
		i := slices.IndexFunc(ways, func(w way) bool { return w.name == name })
		if i < 0 {
			return nil, fmt.Errorf("there is no way %q of ending a leader", name)
		}
		found = append(found, ways[i])
	}
	return found, nil
}

// trial is a run under way.
type trial struct {
	*rig.Rig
	options  Options
	turns    []way
	led      time.Time // since when the leader has written; zero: at least for as long as hands
	random   *rand.Rand
	fixture  *shoot20.Fixture
	targets  []*fleetsim.Target
	replicas []*replica
}

// Run goes through all rounds and completes the report, also if it fails.
func Run(ctx context.Context, root string, o Options, report *figures.Report) (err error) {
	if o.Progress == nil {
		o.Progress = os.Stderr
	}
	turns, err := turnsOf(o.Ways)
	if err != nil {
		return err
	}
	t := &trial{options: o, turns: turns, random: rand.New(rand.NewPCG(o.Seed, 0)), fixture: shoot20.New(shoot20.Options{})}
	if t.Rig, err = rig.Start(ctx, rig.Options{
		Root: root, Results: rig.Results(root), Fleet: fleetsim.Options{Targets: o.Targets, Seed: 1}, Progress: o.Progress,
	}); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.end()) }()
	t.targets = t.Fleet.Targets()
	if err := t.prepare(ctx); err != nil {
		return err
	}
	var victims []rig.Victim
	for _, mr := range t.fixture.ManagedResources("") {
		victims = append(victims, rig.Victims(mr.Objects)...)
	}
	step := report.Begin("failover")
	began := time.Now()
	group, running := errgroup.WithContext(ctx)
	running, over := context.WithCancel(running)
	group.Go(func() error {
		err := rig.NewForeigner(victims).Pace(running, t.targets, o.Rate, 24*time.Hour)
		if running.Err() != nil {
			err = nil // it got a signal to end
		}
		return err
	})
	taken, late, failed := t.rounds(running)
	over()
	failed = errors.Join(failed, group.Wait())
	t.figures(step, taken, late)
	judge(step, journal.Since(began, t.Journal.Histories()...))
	step.End()
	return failed
}

// prepare fills the source, and has two replicas at work.
func (t *trial) prepare(ctx context.Context) error {
	if err := rig.EachOf(ctx, t.targets, nil, func(ctx context.Context, target *fleetsim.Target) error {
		if err := t.Writers.Register(ctx, target); err != nil {
			return err
		}
		return t.Writers.Create(ctx, t.fixture.Source(rig.Namespace(target), target.Name())...)
	}); err != nil {
		return err
	}
	for _, name := range []string{"a", "b"} {
		if err := t.add(ctx, name); err != nil {
			return err
		}
	}
	var refs []testbed.Ref
	for _, target := range t.targets {
		for _, mr := range t.fixture.ManagedResources("") {
			refs = append(refs, testbed.ManagedResourceRef(rig.Namespace(target), mr.Name))
		}
	}
	_, err := t.Observer.Expect("all ManagedResources are applied", refs, rig.Applied).Wait(ctx, t.Rig, t.options.Patience)
	return err
}

// end ends the replicas and everything else.
func (t *trial) end() error {
	var failed error
	for _, r := range t.replicas {
		failed = errors.Join(failed, r.Stop())
	}
	return errors.Join(failed, t.Stop())
}

// rounds are gone through until one fails. It returns how long each way took, in milliseconds, and how many writes came late.
func (t *trial) rounds(ctx context.Context) (taken map[string][]float64, late int, err error) {
	taken = map[string][]float64{}
	for i := range t.options.Kills {
		way := t.turns[i%len(t.turns)]
		took, tooLate, err := t.round(ctx, i, way)
		if err != nil {
			return taken, late, fmt.Errorf("round %d, %s: %w", i, way.name, err)
		}
		late += tooLate
		taken[way.name] = append(taken[way.name], figures.Milliseconds(took))
		t.Say("round %d, %s: the successor wrote after %s", i, way.name, took.Round(time.Millisecond))
	}
	return taken, late, nil
}

// round ends the leader once. It returns how long it took until its successor wrote, and how many writes of the old leader came
// after that.
func (t *trial) round(ctx context.Context, number int, way way) (took time.Duration, late int, err error) {
	leader, standby, err := t.roles(ctx)
	if err != nil {
		return 0, 0, err
	}
	if err := rig.Pause(ctx, hands-time.Since(t.led)); err != nil {
		return 0, 0, err
	}
	applied := t.Observer.Expect("the ManagedResources of the round are applied", t.roundRefs(number), rig.Applied)
	defer applied.End()
	group, writing := errgroup.WithContext(ctx)
	group.Go(func() error { return t.give(writing, number) })
	// In the middle of it, or shortly after.
	if err := rig.Pause(ctx, time.Duration(t.random.IntN(1500))*time.Millisecond); err != nil {
		return 0, 0, err
	}
	began := time.Now()
	if err := leader.signal(way.signal); err != nil {
		return 0, 0, err
	}
	var first time.Time
	// When that was is in the journals. Reading them often would only take from the hub what it needs to be quick.
	if err := t.Until(ctx, t.options.Patience, 500*time.Millisecond, "the successor writes", func() (bool, error) {
		first = firstWrite(t.changes(began), standby.name)
		return !first.IsZero(), nil
	}); err != nil {
		return 0, 0, fmt.Errorf("%w\n%s", err, standby.LogTail())
	}
	t.led = first
	if err := group.Wait(); err != nil {
		return 0, 0, err
	}
	if err := t.replace(ctx, leader, standby, way); err != nil {
		return 0, 0, err
	}
	if _, err := applied.Wait(ctx, t.Rig, t.options.Patience); err != nil {
		return 0, 0, err
	}
	for _, change := range lateWrites(t.changes(first), standby.name, first) {
		late++
		t.Say("late: %s %s, %s after the successor began, by %s", change.Verb, change.Object(), change.Time.Sub(first), change.UserAgent)
	}
	return first.Sub(began), late, nil
}

// replace has a standby again: the old leader, if it only slept, or a new replica.
func (t *trial) replace(ctx context.Context, leader, successor *replica, way way) error {
	if way == stop {
		if err := rig.Pause(ctx, time.Duration(t.random.IntN(1000))*time.Millisecond); err != nil {
			return err
		}
		if err := leader.signal(syscall.SIGCONT); err != nil {
			return err
		}
		return rig.Pause(ctx, t.options.Awake)
	}
	select {
	case <-leader.Done():
	case <-time.After(t.options.Patience):
		return fmt.Errorf("the leader does not end\n%s", leader.LogTail())
	}
	leader.Kill() // what guards the process goes, too
	t.replicas = []*replica{successor}
	return t.add(ctx, leader.name)
}

// perRound is how many objects a ManagedResource of a round has.
const perRound = 10

func roundName(number int) string { return fmt.Sprintf("round-%d", number) }

// give gives all targets the ManagedResource of a round, and takes an older one away.
func (t *trial) give(ctx context.Context, number int) error {
	name := roundName(number)
	var manifests []string
	for i := range perRound {
		manifests = append(manifests, testbed.ConfigMap("default", fmt.Sprintf("%s-%d", name, i), "value"))
	}
	return rig.EachOf(ctx, t.targets, nil, func(ctx context.Context, target *fleetsim.Target) error {
		ns := rig.Namespace(target)
		if err := t.Writers.Create(ctx, testbed.Content(ns, name, "objects.yaml", manifests...), testbed.ManagedResource(
			ns, name, name)); err != nil {
			return err
		}
		if number < 2 {
			return nil
		}
		return t.Writers.DeleteManagedResources(ctx, ns, roundName(number-2))
	})
}

func (t *trial) roundRefs(number int) []testbed.Ref {
	refs := make([]testbed.Ref, 0, len(t.targets))
	for _, target := range t.targets {
		refs = append(refs, testbed.ManagedResourceRef(rig.Namespace(target), roundName(number)))
	}
	return refs
}

// changes are what was written to all targets since a time.
func (t *trial) changes(since time.Time) []journal.Change {
	var out []journal.Change
	for _, target := range t.targets {
		out = append(out, target.Journal().Changes(since)...)
	}
	return out
}

// firstWrite is when a replica first wrote to any target, zero if it did not.
func firstWrite(changes []journal.Change, by string) time.Time {
	var first time.Time
	for _, change := range changes {
		if change.UserAgent == rig.AgentOf(by) && (first.IsZero() || change.Time.Before(first)) {
			first = change.Time
		}
	}
	return first
}

// lateWrites are those of any hub but one after a time.
func lateWrites(changes []journal.Change, but string, after time.Time) []journal.Change {
	var out []journal.Change
	for _, change := range changes {
		if change.Time.After(after) && rig.ByHub(change) && change.UserAgent != rig.AgentOf(but) {
			out = append(out, change)
		}
	}
	return out
}

func (t *trial) figures(step *figures.Step, taken map[string][]float64, late int) {
	for _, way := range ways {
		if len(taken[way.name]) == 0 {
			continue
		}
		name := way.name + " until the successor writes"
		step.AddLatencies(name, taken[way.name], nil)
		if way.goal > 0 {
			step.Find(name + ", max").AtMost(figures.Milliseconds(way.goal))
		}
	}
	step.Add("writes of the old leader after the first one of its successor", float64(late), "").Exactly(0).Strictly()
}

// hands is how long a replica that was followed does not come back for: its successor is not ended sooner.
const hands = 5 * time.Second

// replicaOf names the replica that wrote; empty for others.
func replicaOf(c journal.Change) string {
	if !rig.ByHub(c) {
		return ""
	}
	return c.UserAgent
}

// judge has the journals judge what all replicas wrote.
func judge(step *figures.Step, histories []journal.History) {
	rig.Complete(step, histories)
	for _, verdict := range []journal.Verdict{
		journal.TwoAtATime(hands, replicaOf, histories...),
		journal.CreatedTwice(rig.ByHub, nil, histories...),
		journal.WrongDeletes(rig.ByHub, journal.Deletes{Allowed: func(_ string, c journal.Change) bool { return strings.HasPrefix(c.Name, "round-") }}, histories...),
	} {
		step.Add("journal: "+verdict.Check, float64(len(verdict.Findings)), "").Exactly(0).Strictly()
		if len(verdict.Findings) > 0 {
			step.Note("the first finding: %s", verdict.Findings[0])
		}
	}
	repeated := journal.Repeated(rig.ByHub, histories...)
	step.Add("journal: "+repeated.Check, float64(len(repeated.Findings)), "")
	step.Note("a successor applies again what its predecessor had written and not noted yet: the same content, to the same object")
}
