package fairqueue

import (
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"
)

// entry is an item in the queue. It is in exactly one of three places: ready in a flow, among the delayed, or, if the
// item is in flight, held back until Done.
type entry[R comparable] struct {
	item     R
	priority int
	// order is the turn of the entry among those of its priority.
	order uint64
	// readyAt is when the entry is or was due. For a ready one that is since when it waits.
	readyAt time.Time
	// flow is where the entry is ready; nil if it is not.
	flow *flow[R]
	// held is true while the entry waits for Done.
	held bool
	// index is the place in the heap of the flow or of the delayed.
	index int
}

// urgent reports whether an entry is not of the background.
func (e *entry[R]) urgent() bool { return e.priority >= 0 }

// level is the kind of an entry. Entries of the first two levels are urgent.
type level int

const (
	// change is for changes by users or other clients: a priority of Options.Changes or more.
	change level = iota
	// upkeep is what else is to be put right: a priority of zero or more.
	upkeep
	// background is all with priorities below zero, such as periodic resyncs.
	background
	levels
)

// levelOf returns the level of an entry.
func (q *Queue[R]) levelOf(e *entry[R]) level {
	switch {
	case !e.urgent():
		return background
	case e.priority < q.options.Changes:
		return upkeep
	}
	return change
}

// flow is the work for one target. It exists while it has entries that are ready or in flight.
type flow[R comparable] struct {
	// name is what Options.Flow returned, and key distinguishes it from flows of other tenants with the same name.
	name, key string
	tenant    *tenant[R]
	ready     indexedHeap[*entry[R]]
	// inFlight is how many of its items are in flight, seated how many of them have a seat.
	inFlight, seated int
	// turn orders flows by the time for which they have waited: the lower, the longer.
	turn uint64
	// level is that of the heap it is in, index its place there.
	level level
	index int
}

func newFlow[R comparable](name, key string, t *tenant[R]) *flow[R] {
	return &flow[R]{
		name: name, key: key, tenant: t, index: notInHeap,
		ready: indexedHeap[*entry[R]]{
			index: func(e *entry[R]) *int { return &e.index },
			before: func(a, b *entry[R]) bool {
				if a.priority != b.priority {
					return a.priority > b.priority
				}
				return a.order < b.order
			},
		},
	}
}

// before reports which of two flows is served first: one that has nothing in flight, because the target of the other
// may hang, and of two such the one that has been waiting longer.
func (f *flow[R]) before(other *flow[R]) bool {
	if idle := f.inFlight == 0; idle != (other.inFlight == 0) {
		return idle
	}
	return f.turn < other.turn
}

// oldest returns the longest time for which an urgent entry has been ready; zero if none is.
func (f *flow[R]) oldest(now time.Time) (oldest time.Duration) {
	for _, e := range f.ready.things {
		if e.urgent() {
			oldest = max(oldest, now.Sub(e.readyAt))
		}
	}
	return oldest
}

// work is an item in flight.
type work[R comparable] struct {
	queue  *Queue[R]
	flow   *flow[R]
	level  level
	since  time.Time
	seated bool
	// timer runs while it has a seat and has called its target, which listening says. calls is how many calls are not
	// answered, and lastAnswer the time of the last answer, or of the first call without one, in nanoseconds.
	timer      clock.Timer
	listening  atomic.Bool
	calls      atomic.Int32
	lastAnswer atomic.Int64
}
