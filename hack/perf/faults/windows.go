package faults

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/trellis-hub/trellis/hack/fleetsim"
	"github.com/trellis-hub/trellis/hack/perf/figures"
	"github.com/trellis-hub/trellis/hack/perf/rig"
)

// limit is how many times their baseline the latencies of healthy targets may be.
const limit = 1.2

// repeats is how often windows are repeated if that is not so, and changesPerSecond how often content of healthy
// targets changes. The p99 of few values is chance. Windows that were drawn from all baselines of a run show how
// much: with 5 changes a second and two repeats, one of the 54 comparisons of p99 misses where no fault does
// anything, and of those in which all takes 1.5 times as long, 62 of a hundred are found. With these numbers it is
// one in four runs, and 71; for that, windows are repeated as often even if fewer would do, since repeating only
// until the limit is held finds less.
//
// Slow windows come one after the other, too, which drawing them at random does not show. So what is still slower is looked at once more, with
// as many windows again. Neighbours of the 44 baselines of a run show what that loses: of what takes 1.5 times as long, 57 of a hundred p99 are
// found, and 58 without the second look.
const (
	repeats          = 4
	rounds           = 2
	changesPerSecond = 10
)

// window measures the healthy targets for a while.
func (r *run) window(ctx context.Context) (rig.Drift, error) {
	var d rig.Drift
	group, measuring := errgroup.WithContext(ctx)
	group.Go(func() (err error) {
		d, err = r.Window(measuring, r.crowd, r.reference, r.healthy, r.options.Rate, r.options.Window)
		return err
	})
	group.Go(func() error {
		return r.changeAtPace(measuring, r.options.Window)
	})
	err := group.Wait()
	return d, err
}

// changeAtPace changes content of one healthy target after the other.
func (r *run) changeAtPace(ctx context.Context, length time.Duration) error {
	ticker := time.NewTicker(time.Second / changesPerSecond)
	defer ticker.Stop()
	over := time.NewTimer(length)
	defer over.Stop()
	for {
		select {
		case <-over.C:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
			target := r.healthy[r.changes%len(r.healthy)]
			r.changes++
			value := fmt.Sprintf("change-%d", r.changes)
			if err := r.Writers.UpdateSecret(ctx, rig.ContentOf(target, rig.Changing, value, 0, time.Now())); err != nil {
				return err
			}
			r.values[target.Name()] = value
		}
	}
}

// comparison is of one latency.
type comparison struct {
	what string
	// base and fault are the values in milliseconds: medians of those of the windows, so that a single odd window decides nothing.
	base, fault float64
	// reference is how many times as long as in the baselines the reference took, at least 1.
	reference float64
	// noise is by how much baselines differ from their median, in the median and as a fraction of it. A single odd one adds nothing.
	noise float64
}

// How restless the machine may be. Beyond it, what was allowed would allow everything.
const (
	mostReference = 2
	mostNoise     = 0.5
)

// verdict of a comparison.
type verdict string

const (
	held   verdict = "held"
	broken verdict = "broken"
	// inconclusive says that healthy targets were slower, on a machine whose load varied too much to know why.
	inconclusive verdict = "inconclusive"
)

func (c comparison) ratio() float64 { return c.fault / c.base }

// allowed is the ratio up to which nothing was shown.
func (c comparison) allowed() float64 {
	return limit*min(c.reference, mostReference) + min(c.noise, mostNoise)
}

func (c comparison) verdict() verdict {
	switch {
	case c.ratio() <= c.allowed():
		return held
	case math.IsNaN(c.fault), math.IsNaN(c.base):
		return broken // nothing was corrected, or arrived
	case c.reference > mostReference, c.noise > mostNoise:
		return inconclusive
	}
	return broken
}

// show sets the goal of a figure. What is inconclusive has none.
func (c comparison) show(f *figures.Figure) {
	goal := fmt.Sprintf("<= %.1f x reference %.2f + noise %.2f", limit, c.reference, c.noise)
	if c.verdict() == inconclusive {
		f.Goal = goal + ": inconclusive"
		return
	}
	f.Holds(goal, c.verdict() == held).Strictly()
}

// compare compares windows with faults to windows without.
func compare(baselines, faulty []rig.Drift) []comparison {
	var out []comparison
	for _, figure := range []struct {
		what   string
		values func(rig.Drift) []float64
		q      float64
	}{
		{"drift p50", drifts, 0.5}, {"drift p99", drifts, 0.99}, {"propagation p50", reached, 0.5}, {"propagation p99", reached, 0.99},
	} {
		of := func(windows []rig.Drift, values func(rig.Drift) []float64) []float64 {
			var each []float64
			for _, w := range windows {
				each = append(each, figures.Quantile(values(w), figure.q))
			}
			return each
		}
		each := of(baselines, figure.values)
		c := comparison{what: figure.what, base: middle(each), fault: middle(of(faulty, figure.values)), reference: 1}
		if took := middle(of(faulty, references)) / middle(of(baselines, references)); took > 1 {
			c.reference = took
		}
		for i, v := range each {
			each[i] = math.Abs(v-c.base) / c.base
		}
		if c.noise = middle(each); math.IsNaN(c.noise) {
			c.noise = 0
		}
		out = append(out, c)
	}
	return out
}

// middle is the median, the mean of two if there are two in the middle; NaN without values, or with one that is none.
func middle(values []float64) float64 {
	if slices.ContainsFunc(values, math.IsNaN) || len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}

func drifts(d rig.Drift) []float64     { return d.Millis }
func reached(d rig.Drift) []float64    { return d.Reached }
func references(d rig.Drift) []float64 { return d.Reference }

// settleFor is how long the targets get between a window with faults and one without.
const settleFor = time.Second

// repeat measures with and without the fault once more.
func (r *run) repeat(ctx context.Context, d disorder, targets []*fleetsim.Target) (with, without rig.Drift, err error) {
	for _, target := range targets {
		if err := d.begin(ctx, target); err != nil {
			return with, without, err
		}
	}
	with, err = r.window(ctx)
	for _, target := range targets {
		if failed := d.end(ctx, r.Rig, target); err == nil {
			err = failed
		}
	}
	if err == nil {
		err = rig.Pause(ctx, settleFor)
	}
	if err == nil {
		without, err = r.window(ctx)
	}
	return with, without, err
}
