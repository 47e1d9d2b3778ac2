package histories

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/trellis-hub/trellis/hack/testbed"
)

// Options say which history to run.
type Options struct {
	// Name makes the names of this history's namespaces. Histories on the same clusters need different ones.
	Name string
	// Seed draws the history; Steps is how long it is.
	Seed  uint64
	Steps int
	// Replay, if not empty, is the history.
	Replay []Step
	// For ends the history early, between two steps; zero is never.
	For time.Duration
	// Progress, if set, is called at each rest.
	Progress func(Stats)
}

// Stats say what happened in a history.
type Stats struct {
	Steps       map[string]int // by operation, those without effect left out
	Void        int            // steps that found nothing to do
	Calls       map[string]int // calls of the hub, and what befell them
	Hubs        int            // lives of the hub
	Deletes     int            // deletions by the hub that were judged
	Rests       int            // how often the world came to rest
	Resting     time.Duration
	LongestRest time.Duration
	Slow        []string `json:",omitempty"` // why the world was not at rest after ten seconds
	Duration    time.Duration
}

// Total is the number of steps with an effect.
func (s Stats) Total() (n int) {
	for _, c := range s.Steps {
		n += c
	}
	return n
}

// Add adds the figures of another history.
func (s *Stats) Add(o Stats) {
	for _, m := range []struct {
		to   *map[string]int
		from map[string]int
	}{{&s.Steps, o.Steps}, {&s.Calls, o.Calls}} {
		if *m.to == nil {
			*m.to = map[string]int{}
		}
		for k, n := range m.from {
			(*m.to)[k] += n
		}
	}
	s.Void, s.Hubs, s.Deletes, s.Rests = s.Void+o.Void, s.Hubs+o.Hubs, s.Deletes+o.Deletes, s.Rests+o.Rests
	s.Slow = append(s.Slow, o.Slow...)
	s.Resting, s.Duration, s.LongestRest = s.Resting+o.Resting, s.Duration+o.Duration, max(s.LongestRest, o.LongestRest)
}

// String renders the figures as a few lines.
func (s Stats) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d steps (%d more without effect) in %s, %.0f a second; %d lives of the hub; %d deletions judged; %d rests, %s on average, at most %s\n",
		s.Total(), s.Void, s.Duration.Round(time.Second), float64(s.Total())/s.Duration.Seconds(), s.Hubs, s.Deletes, s.Rests,
		(s.Resting / time.Duration(max(s.Rests, 1))).Round(time.Millisecond), s.LongestRest.Round(time.Millisecond))
	for _, m := range []map[string]int{s.Steps, s.Calls} {
		var parts []string
		for k, n := range m {
			parts = append(parts, fmt.Sprintf("%s %d", k, n))
		}
		slices.Sort(parts)
		fmt.Fprintln(&b, strings.Join(parts, ", "))
	}
	return b.String()
}

// Result is the outcome of a history.
type Result struct {
	Seed  uint64
	Stats Stats
	// Violation is the rule that was broken first, nil if none was.
	Violation *Violation `json:",omitempty"`
	// History is what was done until then.
	History []Step `json:"-"`
	// Trace is what happened in the end, About the part of it that names what the violation is about, and Log what the hub
	// said in the end.
	Trace, About, Log string `json:"-"`
}

// Run runs a history on two clusters, the first of which testbed.InstallSource made a source. The error is about the
// environment; what the hub did wrong is in the result.
func Run(ctx context.Context, all [clusters]*testbed.Cluster, o Options) (*Result, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	log := &testbed.Log{}
	w, err := newWorld(ctx, o.Name, all, log)
	if err != nil {
		return nil, err
	}
	defer w.end(cancel)
	r := &Result{Seed: o.Seed}
	stats := Stats{Steps: map[string]int{}}
	begin := time.Now()
	collect := func() Stats {
		s := w.judge.figures()
		s.Steps, s.Void, s.Calls, s.Hubs, s.Duration = stats.Steps, stats.Void, w.wire.figures(), w.hubs.lives, time.Since(begin)
		return s
	}
	next := history(o)
	for stats.Total() < o.Steps || len(o.Replay) > 0 {
		step, ok := next()
		if !ok || o.For > 0 && time.Since(begin) > o.For {
			break
		}
		r.History = append(r.History, step)
		void, err := w.do(step)
		if err != nil && w.judge.violation() == nil {
			return nil, err
		}
		if void {
			stats.Void++
		} else {
			stats.Steps[step.Op]++
		}
		if r.Violation = w.judge.violation(); r.Violation != nil {
			break
		}
		if step.Op == restOp && o.Progress != nil {
			o.Progress(collect())
		}
	}
	if r.Violation == nil {
		if err := w.finish(); err != nil {
			return nil, err
		}
		r.Violation = w.judge.violation()
	}
	r.Stats = collect()
	if v := r.Violation; v != nil {
		var all, about strings.Builder
		w.trace.write(&all)
		w.trace.write(&about, v.About...)
		r.Trace, r.About, r.Log = all.String(), about.String(), log.String()
	}
	return r, nil
}

// Shrink looks for a shorter history that breaks the same rule, by leaving out ever smaller parts, until ctx ends. name
// makes the names of the attempts. What it returns failed at least once.
func Shrink(ctx context.Context, all [clusters]*testbed.Cluster, name string, failed *Result) (*Result, error) {
	attempts := 0
	for part := len(failed.History) / 2; part > 0; part /= 2 {
		for from := 0; from < len(failed.History) && ctx.Err() == nil; {
			attempts++
			shorter := slices.Delete(slices.Clone(failed.History), from, min(from+part, len(failed.History)))
			if len(shorter) == 0 {
				break
			}
			result, err := Run(context.WithoutCancel(ctx), all, Options{Name: fmt.Sprint(name, "x", attempts), Replay: shorter})
			if err != nil {
				return failed, err
			}
			if result.Violation != nil && result.Violation.Rule == failed.Violation.Rule {
				result.Seed, failed = failed.Seed, result
			} else {
				from += part
			}
		}
	}
	return failed, nil
}

// history yields the steps of a history.
func history(o Options) func() (Step, bool) {
	if len(o.Replay) > 0 {
		return func() (s Step, ok bool) {
			if len(o.Replay) == 0 {
				return s, false
			}
			s, o.Replay = o.Replay[0], o.Replay[1:]
			return s, true
		}
	}
	g := newGenerator(o.Seed)
	lengths := rand.New(rand.NewPCG(o.Seed, 1))
	left := 60
	return func() (Step, bool) {
		if left--; left < 0 {
			left = 150 + lengths.IntN(250)
			return Step{Op: restOp}, true
		}
		return g.next(), true
	}
}

// finish brings the world to rest, deletes all ManagedResources, and sees whether anything stays behind.
func (w *world) finish() error {
	if _, err := w.do(Step{Op: restOp}); err != nil {
		return err
	}
	for m := range allResources {
		if w.alive(m) {
			if _, err := w.do(Step{Op: "mr", A: m}); err != nil {
				return err
			}
		}
	}
	if _, err := w.do(Step{Op: restOp}); err != nil || w.judge.violation() != nil {
		return err
	}
	if err := w.endHostile(); err != nil {
		return fmt.Errorf("ending the hostile namespace: %w", err)
	}
	// The next history on these clusters has nothing to do with the registrations of this one.
	for r := range allRegistrations {
		if err := w.toggleRegistration(Step{A: r}); err != nil {
			return err
		}
	}
	return nil
}

func (j *judge) violation() *Violation {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.first
}

func (j *judge) figures() Stats {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.stats
}

func (w *wire) figures() map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := make(map[string]int, len(w.counts))
	for k, n := range w.counts {
		out[k] = n
	}
	return out
}
