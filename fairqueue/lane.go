package fairqueue

import (
	"container/list"
	"time"
)

// entry is an item in the queue. It is in exactly one of three places: ready in a lane, among the delayed, or, if the
// item is being worked on, held back until Done.
type entry[R comparable] struct {
	item     R
	priority int
	// order is the turn of the entry among those of its priority.
	order uint64
	// readyAt is when the entry is or was due. For a ready one that is since when it waits.
	readyAt time.Time
	// lane is where the entry is ready; nil if it is not.
	lane *lane[R]
	// held is true while the entry waits for Done.
	held bool
	// index is the place in the heap of the lane or of the delayed.
	index int
}

// lane is the part of a queue that belongs to one target. It exists while it has entries ready or in flight.
type lane[R comparable] struct {
	// name is what Options.Lane returned, and key distinguishes it from lanes of other tenants with the same name.
	name, key string
	tenant    *tenant[R]
	ready     indexedHeap[*entry[R]]
	// standing is what is known of it. Only judge changes it.
	standing standing
	// inFlight is how many of its items are handed out, slow how many of them have no place.
	inFlight, slow int
	// held is true while nothing of it is handed out, until its target was found to answer. That holds until vouchedUntil,
	// or until something is handed out.
	held         bool
	vouchedUntil time.Time
	// turn says since when the lane waits: the lower, the longer.
	turn uint64
	// urgency is that of the heap it is in, index its place there.
	urgency urgency
	index   int
}

// urgency is the kind of a lane's first entry. Two kinds are urgent: somebody waits for them.
type urgency int

const (
	// change is what somebody changed: a priority of Options.Changes or more.
	change urgency = iota
	// upkeep is what else is to be put right: a priority of zero or more.
	upkeep
	// background is all with priorities below zero, such as looks that are due although nothing happened.
	background
	urgencies
)

// inRow is how many urgent entries are handed out in a row while there is work in the background.
const inRow = 7

// urgent tells whether somebody waits for an entry.
func (e *entry[R]) urgent() bool { return e.priority >= 0 }

// urgency is the kind of an entry.
func (q *Queue[R]) urgency(e *entry[R]) urgency {
	switch {
	case !e.urgent():
		return background
	case e.priority < q.options.Changes:
		return upkeep
	}
	return change
}

// wants is the urgency of a lane that has something ready.
func (q *Queue[R]) wants(l *lane[R]) urgency { return q.urgency(l.ready.first()) }

// flight is an item that is handed out.
type flight[R comparable] struct {
	item R
	lane *lane[R] // which it came from
	// standing is what was known of the lane then.
	standing standing
	urgency  urgency // of the item
	since    time.Time
	// place is its element among those that have one; nil if it has given it up, or got none.
	place *list.Element
	// yielded is its element among those that have given it up early; nil if it has not, or was judged since.
	yielded *list.Element
}

func newLane[R comparable](name string, s standing) *lane[R] {
	return &lane[R]{
		name:     name,
		standing: s,
		index:    notInHeap,
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

// before tells which of two lanes is served first: one that has nothing in flight, for the other may turn out to hang,
// and of two such the one that has been waiting longer.
func (l *lane[R]) before(other *lane[R]) bool {
	if idle := l.inFlight == 0; idle != (other.inFlight == 0) {
		return idle
	}
	return l.turn < other.turn
}
