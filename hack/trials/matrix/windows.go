package matrix

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/trellis-hub/trellis/hack/figures"
	"github.com/trellis-hub/trellis/hack/fleetsim"
	"github.com/trellis-hub/trellis/hack/trials/rig"
)

// limit is how many times their baseline the latencies of healthy targets may be.
const limit = 1.2

// repeats is how often windows are repeated if that is not so.
const repeats = 2

// changesPerSecond is how often content of healthy targets changes.
const changesPerSecond = 5

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
			if err := r.Writers.UpdateSecret(ctx, rig.ContentOf(target, rig.Changing, fmt.Sprintf("change-%d", r.changes), 0, time.Now())); err != nil {
				return err
			}
		}
	}
}

// comparison is of one latency.
type comparison struct {
	what string
	// base and fault are the values in milliseconds, base that of all baselines.
	base, fault float64
	// reference is what the reference has lost, at least 1, and noise by how much the baselines differ, in milliseconds.
	reference, noise float64
}

func (c comparison) ratio() float64 { return c.fault / c.base }

// allowed is the ratio up to which nothing was shown.
func (c comparison) allowed() float64 { return limit*c.reference + c.noise/c.base }

func (c comparison) held() bool { return c.ratio() <= c.allowed() }

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
		of := func(windows []rig.Drift, values func(rig.Drift) []float64) float64 {
			var all []float64
			for _, w := range windows {
				all = append(all, values(w)...)
			}
			return figures.Quantile(all, figure.q)
		}
		c := comparison{what: figure.what, base: of(baselines, figure.values), fault: of(faulty, figure.values), reference: 1}
		if lost := of(faulty, references) / of(baselines, references); lost > 1 {
			c.reference = lost
		}
		single := make([]float64, 0, len(baselines))
		for _, b := range baselines {
			single = append(single, of([]rig.Drift{b}, figure.values))
		}
		if c.noise = slices.Max(single) - slices.Min(single); math.IsNaN(c.noise) {
			c.noise = 0
		}
		out = append(out, c)
	}
	return out
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
