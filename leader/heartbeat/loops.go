package heartbeat

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"
)

// StuckSince returns since when a loop has been stuck, zero if it is not. It must answer from memory.
type StuckSince func(now time.Time) time.Time

// Loop is one that has to make progress.
type Loop struct {
	// Name is what it is called in logs and errors.
	Name       string
	StuckSince StuckSince
}

// Loops are those that have to make progress.
type Loops struct {
	clock clock.PassiveClock

	mu    sync.Mutex
	next  int
	loops map[int]Loop
}

// NewLoops returns no loops yet.
func NewLoops(c clock.PassiveClock) *Loops {
	return &Loops{clock: c, loops: map[int]Loop{}}
}

// Add adds a loop. The returned function takes it out again.
func (l *Loops) Add(name string, stuckSince StuckSince) (remove func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	id := l.next
	l.next++
	l.loops[id] = Loop{name, stuckSince}
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.loops, id)
	}
}

// Stuck returns the loop that has been stuck for the longest time, and for how long. The name is empty if none is.
func (l *Loops) Stuck() (name string, duration time.Duration) {
	l.mu.Lock()
	loops := slices.Collect(maps.Values(l.loops))
	l.mu.Unlock()
	now := l.clock.Now()
	for _, one := range loops {
		since := one.StuckSince(now)
		if since.IsZero() || since.After(now) {
			continue
		}
		if d := now.Sub(since); name == "" || d > duration {
			name, duration = one.Name, d
		}
	}
	return name, duration
}

// Alive returns a check for /healthz. It fails if a loop has been stuck for longer than a limit, and for no other
// reason.
func (l *Loops) Alive(limit time.Duration) func(*http.Request) error {
	return func(*http.Request) error {
		if name, duration := l.Stuck(); name != "" && duration > limit {
			return fmt.Errorf("loop %q has been stuck for %s", name, duration.Truncate(time.Second))
		}
		return nil
	}
}

var descStuck = metricStuck.Desc()

// Describe implements prometheus.Collector.
func (l *Loops) Describe(descriptions chan<- *prometheus.Desc) { descriptions <- descStuck }

// Collect implements prometheus.Collector.
func (l *Loops) Collect(collected chan<- prometheus.Metric) {
	_, duration := l.Stuck()
	collected <- prometheus.MustNewConstMetric(descStuck, prometheus.GaugeValue, duration.Seconds())
}
