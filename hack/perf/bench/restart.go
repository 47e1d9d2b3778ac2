package bench

import (
	"context"
	"fmt"
	"time"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/hack/perf/figures"
)

// restarted is what a start of the hub takes over targets in which nothing has changed.
type restarted struct {
	// Load is how busy the machine was when it began.
	Load string `json:"load"`
	fleet
	start
	// SteadyMiB is what is resident a minute after the last watch was synced, and PeakMiB the most that ever was until then.
	SteadyMiB float64 `json:"steadyMiB"`
	PeakMiB   float64 `json:"peakMiB"`
	// Target are the requests of the hub at the audited target until then, by what they are.
	Target map[string]int `json:"target"`
	// Writes are those of all clients to all targets until then.
	Writes map[string]int64 `json:"writes"`
}

// start is how long it takes a hub until it sees all that is in the targets.
type start struct {
	began time.Time // when the hub before it had ended
	// ReadySeconds is until the hub is ready, SyncedSeconds until the last watch is synced, both since the process was started.
	ReadySeconds  float64 `json:"readySeconds"`
	SyncedSeconds float64 `json:"syncedSeconds"`
	// CPUSeconds is the processor time of the hub until the last watch was synced, the looks at its figures included.
	CPUSeconds float64 `json:"cpuSeconds"`
	Watches    int     `json:"watches"`
}

// measureRestart ends the hub and starts it again, with nothing changed.
func measureRestart(ctx context.Context, w *world) (r restarted, err error) {
	// What is not noted yet would be applied once more.
	for ref, entry := range w.observer.Entries() {
		mr, ok := entry.Object.(*resourcesv1alpha1.ManagedResource)
		if !ok || mr.Spec.Class != nil && *mr.Spec.Class == foreignClass {
			continue
		}
		if _, err := w.observer.Await(ctx, ref, noted); err != nil {
			return r, err
		}
	}
	r.Load = figures.LoadOfMinute(figures.Load())
	if r.fleet, err = w.fleet(ctx); err != nil {
		return r, err
	}
	asked, err := w.asked(ctx)
	if err != nil {
		return r, err
	}
	if r.start, err = w.restartHub(ctx, ""); err != nil {
		return r, err
	}
	if err := pause(ctx, time.Minute); err != nil {
		return r, err
	}
	memory, err := w.hub.Memory()
	if err != nil {
		return r, err
	}
	r.SteadyMiB, r.PeakMiB = mib(memory.RSS), mib(memory.Peak)
	if r.Target, err = requests(w.audited, r.began, time.Now()); err != nil {
		return r, err
	}
	r.Writes, err = w.writesSince(ctx, asked)
	return r, err
}

// restartHub ends the hub in order, and starts one with sections added to its configuration. It returns some seconds after the
// last watch was synced.
func (w *world) restartHub(ctx context.Context, sections string) (s start, err error) {
	states, err := w.watches(ctx)
	if err != nil {
		return s, err
	}
	if err := w.hub.Stop(); err != nil {
		return s, err
	}
	s.began = time.Now()
	if err := w.startHub(ctx, sections); err != nil {
		return s, err
	}
	s.ReadySeconds = time.Since(s.began).Seconds()
	err = w.awaitSynced(ctx, &s, states["synced"])
	return s, err
}

// watches are those of the hub, by their state.
func (w *world) watches(ctx context.Context) (map[string]float64, error) {
	return w.hub.SumBy(ctx, "trellis_clustercache_watches", "state")
}

// awaitSynced waits until all watches are synced and no more of them come. If there are fewer than before, it waits longer: what
// was needed for a while only is not watched again.
func (w *world) awaitSynced(ctx context.Context, s *start, before float64) error {
	const short, long, patience = 3 * time.Second, 30 * time.Second, 5 * time.Minute
	last := s.began
	for time.Since(s.began) < patience {
		states, err := w.watches(ctx)
		if err != nil {
			return err
		}
		now := states["synced"]
		if int(now) != s.Watches || states["unsynced"] != 0 {
			used, err := w.hub.CPU()
			if err != nil {
				return err
			}
			last = time.Now()
			s.Watches, s.SyncedSeconds, s.CPUSeconds = int(now), last.Sub(s.began).Seconds(), used.Seconds()
		}
		calm := time.Since(last)
		if now > 0 && (now >= before && calm >= short || calm >= long) {
			return nil
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
	return fmt.Errorf("the watches of a hub that starts are not synced after %s, but %d", patience, s.Watches)
}
