package fleet

import (
	"context"
	"fmt"
	"time"

	"github.com/trellis-hub/trellis/hack/perf/figures"
	"github.com/trellis-hub/trellis/hack/perf/rig"
)

const (
	connections = "trellis_clustercache_targets"
	watches     = "trellis_clustercache_watches"
)

// noted is for how long nothing is written to ManagedResources when all is written down.
const noted = 10 * time.Second

// startProfile is how long a hub that starts is profiled.
const startProfile = 20 * time.Second

// restart ends the hub and starts it again, with nothing changed.
func (r *run) restart(ctx context.Context, step *figures.Step) error {
	synced, err := r.sum(ctx, watches, map[string]string{"state": "synced"})
	if err != nil {
		return err
	}
	// The hub writes down what it applied two seconds later. One that is stopped before has its successor apply it again.
	if err := r.AwaitStill(ctx, r.options.Patience, noted); err != nil {
		return err
	}
	if err := r.StopHub(); err != nil {
		return err
	}
	r.Journal.Reset()
	began := time.Now()
	if err := r.StartHub(ctx, r.options.Config); err != nil {
		return err
	}
	step.Add("ready", time.Since(began).Seconds(), "s")
	profiled := r.profile(ctx, step.Name, startProfile)
	if err := r.awaitConnected(ctx); err != nil {
		return err
	}
	step.Add("all targets connected", time.Since(began).Seconds(), "s")
	at, err := r.awaitWatches(ctx, synced)
	if err != nil {
		return err
	}
	step.Add("all watches synced", at.Sub(began).Seconds(), "s")
	cpu, err := r.CPU()
	if err != nil {
		return err
	}
	step.Add("hub CPU until then", cpu.Hub.Seconds(), "s")
	counts := byHub(r.Journal.Counts())
	edited := time.Now()
	if err := r.foreigner.EditEach(ctx, r.targets); err != nil {
		return err
	}
	if err := r.AwaitCorrections(ctx, r.targets, edited, r.options.Patience); err != nil {
		return err
	}
	// Between the last watch and the edits was a pause, to see that it was the last one.
	step.Add("an edit in each target corrected, without the pause", (at.Sub(began) + time.Since(edited)).Seconds(), "s").AtMost(60)
	step.AddLatencies("those edits until corrected", rig.CorrectionsIn(r.targets, edited, time.Now()).Millis, nil)
	step.Add("writes to targets before the edits", float64(counts.Writes().Sum().Requests), "").Exactly(0).Strictly()
	for _, c := range counts {
		step.Count(fmt.Sprintf("target: %s %s %d", c.Verb, c.Resource, c.Code), c.Requests)
	}
	peak, err := r.Hub.Memory()
	if err != nil {
		return err
	}
	if err := rig.Pause(ctx, time.Minute); err != nil {
		return err
	}
	steady, err := r.Hub.Memory()
	if err != nil {
		return err
	}
	step.Add("RSS a minute later", mib(steady.RSS), "MiB")
	step.Add("peak RSS", mib(peak.Peak), "MiB")
	step.Add("peak against a minute later", float64(peak.Peak)/float64(steady.RSS), "x").AtMost(1.5)
	r.judge(step, began)
	return profiled()
}

// scrapes is the pause between two looks at the metrics of the hub. Of a thousand targets they are megabytes, which
// takes time of the processors that are measured.
func (r *run) scrapes() time.Duration {
	return 200*time.Millisecond + time.Duration(len(r.targets))*2*time.Millisecond
}

// awaitConnected waits until all targets are connected.
func (r *run) awaitConnected(ctx context.Context) error {
	return r.Until(ctx, r.options.Patience, r.scrapes(), "all targets are connected", func() (bool, error) {
		n, err := r.sum(ctx, connections, map[string]string{"state": "Connected"})
		return n >= float64(len(r.targets)), err
	})
}

// awaitWatches waits until all watches are synced and no more of them come, and returns when the last one was. There
// may be fewer than before: what is needed for a while only, such as Pods of workloads that roll out, is not watched
// again.
func (r *run) awaitWatches(ctx context.Context, before float64) (last time.Time, err error) {
	const short, long = 3 * time.Second, 30 * time.Second
	known := 0.0
	last = time.Now()
	err = r.Until(ctx, r.options.Patience, r.scrapes(), "all watches are synced", func() (bool, error) {
		states, err := r.Hub.SumBy(ctx, watches, "state")
		now, unsynced := states["synced"], states["unsynced"]
		if now != known || unsynced != r.absent {
			known, last = now, time.Now()
		}
		calm := time.Since(last)
		return now > 0 && (now >= before && calm >= short || calm >= long), err
	})
	return last, err
}

// awaitSynced waits until all targets are connected and nothing more is asked of them.
func (r *run) awaitSynced(ctx context.Context) error {
	if err := r.awaitConnected(ctx); err != nil {
		return err
	}
	_, err := r.awaitWatches(ctx, 0)
	return err
}

// startAnew starts the hub once more with a configuration, and waits until it is at rest.
func (r *run) startAnew(ctx context.Context, config string) error {
	if err := r.StopHub(); err != nil {
		return err
	}
	if err := r.StartHub(ctx, config); err != nil {
		return err
	}
	return r.awaitSynced(ctx)
}
