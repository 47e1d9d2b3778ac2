package fleet

import (
	"context"
	"fmt"
	"time"

	"github.com/trellis-hub/trellis/hack/fleetsim"
	"github.com/trellis-hub/trellis/hack/perf/figures"
	"github.com/trellis-hub/trellis/hack/perf/rig"
)

// single is one change for one target.
type single struct {
	target *fleetsim.Target
	// sent is when the write to the source began, and wrote when it was done.
	sent, wrote time.Time
	// arrived is when the hub had written it, or a later one, to the target.
	arrived time.Time
}

// singlesEvery is the pause between two of them.
const singlesEvery = 200 * time.Millisecond

// sendSingles sends changes to one target after the other until it is over.
func (r *run) sendSingles(ctx context.Context, targets []*fleetsim.Target, over <-chan struct{}) (singles []single, err error) {
	ticker := time.NewTicker(singlesEvery)
	defer ticker.Stop()
	for i := 0; ; i++ {
		select {
		case <-over:
			return singles, nil
		case <-ctx.Done():
			return singles, context.Cause(ctx)
		case <-ticker.C:
			s := single{target: targets[i%len(targets)], sent: time.Now()}
			if err := r.changeIn(ctx, []*fleetsim.Target{s.target}, fmt.Sprintf("single-%d", i), s.sent); err != nil {
				return singles, err
			}
			s.wrote = time.Now()
			singles = append(singles, s)
		}
	}
}

// awaitSingles waits until all have arrived, and notes when.
func (r *run) awaitSingles(ctx context.Context, singles []single) error {
	next := 0
	return r.Until(ctx, r.options.Patience, 20*time.Millisecond, "single changes are in their targets", func() (bool, error) {
		for ; next < len(singles); next++ {
			at, ok := arrival(singles[next].target, singles[next].sent)
			if !ok {
				return false, nil
			}
			singles[next].arrived = at
		}
		return true, nil
	})
}

// arrival is when the hub wrote to a target what was sent then, or later: a change that comes soon after another one takes its place.
func arrival(target *fleetsim.Target, sent time.Time) (time.Time, bool) {
	for _, change := range target.Journal().Changes(sent) {
		if rig.ByHub(change) && change.Changed && !change.SentAt.Before(sent) {
			return change.Time, true
		}
	}
	return time.Time{}, false
}

// took are the times of single changes until they were written to the source, and until they were in their targets, in milliseconds.
func took(singles []single) (wrote, arrived []float64) {
	for _, s := range singles {
		wrote = append(wrote, figures.Milliseconds(s.wrote.Sub(s.sent)))
		arrived = append(arrived, figures.Milliseconds(s.arrived.Sub(s.sent)))
	}
	return wrote, arrived
}
