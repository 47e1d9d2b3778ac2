package run

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Latencies measure how long something takes that begins with an event and ends with a run. There is at most one for
// each ManagedResource that waits for its run.
type Latencies struct {
	mu    sync.Mutex
	since map[types.NamespacedName]time.Time
	taken map[types.NamespacedName]time.Time // by the runs under way
}

// NewLatencies returns latencies of which none is measured.
func NewLatencies() *Latencies {
	return &Latencies{since: map[types.NamespacedName]time.Time{}, taken: map[types.NamespacedName]time.Time{}}
}

// Start begins to measure, unless that has begun.
func (l *Latencies) Start(name types.NamespacedName, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if began, running := l.since[name]; !running || now.Before(began) {
		l.since[name] = now
	}
}

// Began returns since when it is measured, by a run under way or until one begins; zero if it is not.
func (l *Latencies) Began(name types.NamespacedName) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if since, taken := l.taken[name]; taken {
		return since
	}
	return l.since[name]
}

// Stop ends it for a run, and returns since when it was measured; zero if it was not. The run calls Ended.
func (l *Latencies) Stop(name types.NamespacedName) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	since, running := l.since[name]
	if running {
		l.taken[name] = since
		delete(l.since, name)
	}
	return since
}

// Ended notes that a run has ended. What it stopped and did not resume is over.
func (l *Latencies) Ended(name types.NamespacedName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.taken, name)
}

// Resume continues with what Stop returned, because the run did not do it.
func (l *Latencies) Resume(name types.NamespacedName, since time.Time) {
	if !since.IsZero() {
		l.Start(name, since)
	}
}
