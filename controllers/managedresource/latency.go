package managedresource

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
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
