package managedresource

import (
	"context"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/trellis-hub/trellis/controllers/managedresource/dispatch"
	"github.com/trellis-hub/trellis/metrics"
)

// latencies measure how long something takes that begins with an event and ends with a run. There is at most one for
// each ManagedResource that waits for its run.
type latencies struct {
	mu    sync.Mutex
	since map[types.NamespacedName]time.Time
	taken map[types.NamespacedName]time.Time // by the runs under way
}

func newLatencies() *latencies {
	return &latencies{since: map[types.NamespacedName]time.Time{}, taken: map[types.NamespacedName]time.Time{}}
}

// start begins to measure, unless that has begun.
func (l *latencies) start(name types.NamespacedName, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if began, running := l.since[name]; !running || now.Before(began) {
		l.since[name] = now
	}
}

// began returns since when it is measured, by a run under way or until one begins; zero if it is not.
func (l *latencies) began(name types.NamespacedName) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if since, taken := l.taken[name]; taken {
		return since
	}
	return l.since[name]
}

// stop ends it for a run, and returns since when it was measured; zero if it was not. The run calls ended.
func (l *latencies) stop(name types.NamespacedName) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	since, running := l.since[name]
	if running {
		l.taken[name] = since
		delete(l.since, name)
	}
	return since
}

// ended notes that a run has ended. What it stopped and did not resume is over.
func (l *latencies) ended(name types.NamespacedName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.taken, name)
}

// resume continues with what stop returned, because the run did not do it.
func (l *latencies) resume(name types.NamespacedName, since time.Time) {
	if !since.IsZero() {
		l.start(name, since)
	}
}

// timed measures the runs of a class.
type timed struct {
	supervisor *supervisor
	class      *classMetrics
	clock      clock.PassiveClock
	log        logr.Logger
}

// slowRun is the duration from which on a run is logged: metrics show only that there was one.
const slowRun = time.Minute

// Reconcile implements reconcile.TypedReconciler.
func (t timed) Reconcile(ctx context.Context, req dispatch.Request) (reconcile.Result, error) {
	began := t.clock.Now()
	result, err := t.supervisor.Reconcile(ctx, req, t.class)
	observer := t.class.run
	if err != nil {
		observer = t.class.runFailed
	}
	took := t.clock.Since(began)
	observer.Observe(took.Seconds())
	if took > slowRun {
		t.log.Info("A run took long", "class", t.class.label, "target", metrics.TargetName(req.Target),
			"managedResource", req.String(), "duration", took)
	}
	return result, err
}
