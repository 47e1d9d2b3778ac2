package fairqueue

import (
	"time"

	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
)

// defaultMaxInFlight is how many items of a lane are handed out at once if nobody says otherwise.
const defaultMaxInFlight = 2

// Options configure a Queue. The zero value is usable: one lane for everything, two items at a time.
type Options[R comparable] struct {
	// Lane returns the lane of an item. It is asked each time the item becomes ready, while the queue is locked: it must
	// answer quickly and not call the queue. nil means one lane for all.
	Lane func(item R) string
	// Tenant returns the tenant of an item: the namespace that it is for. The queue is fair between tenants first and then
	// between the lanes of a tenant; a lane belongs to one tenant, and lanes of one name that belong to several are
	// different ones. It is asked together with Lane, under the same terms. nil means that all items belong to one tenant,
	// which may have everything.
	Tenant func(item R) string
	// MaxInFlight returns how many items of a lane may be handed out at once. It is asked each time an item of the lane
	// comes or goes, and when the figures are read, while the queue is locked, and may change its mind. An answer below
	// one counts as one. nil means two for every lane.
	MaxInFlight func(lane string) int
	// Changes is the priority from which on an item is a change that somebody made. Those below, down to zero, are upkeep:
	// changes and upkeep of different lanes take turns. Zero: all of them are changes.
	Changes int
	// Places is how many items may be worked on at once. An item that has been worked on for longer than Patience gives up
	// its place to another: it waits, and needs none. Zero: there is a place for every worker, and nothing is given up.
	Places int
	// Workers is how many call Get, when there are Places; those beyond the places bound how many items may wait without
	// one. Zero: eight times as many as places.
	Workers int
	// Patience is 2s if it is zero.
	Patience time.Duration
	// Answers tells whether the target of an item answers: whether it has answered anything just now, or work for it needs
	// no answer. If that is not known it returns false, finds out, and calls settled once when it is so, from another
	// goroutine. It is asked about items of swift lanes that have been worked on for longer than Doubt. If that is not
	// settled after as long again, nor after thrice as long as is usual, they give up their places; and while half as many
	// targets as there are Places are silent, it is asked before an item is handed out, which waits until that is settled.
	// It is called while the queue is locked: it must return quickly and not call the queue. nil: all answer.
	Answers func(item R, settled func()) bool
	// Doubt is 200ms if it is zero.
	Doubt time.Duration
	// RateLimiter says how long items that are added rate-limited have to wait. nil means exponentially longer for each
	// item, from 5 ms to 1000 s.
	RateLimiter workqueue.TypedRateLimiter[R]
	// Served hears of each item that is handed out, and how long it waited for a worker, but for those in the background,
	// for which nobody waits. It is called while the queue is locked: it must return quickly and not call the queue. nil
	// means nobody.
	Served func(item R, wait time.Duration)
	// Metrics gets the figures of the queue. nil means none.
	Metrics *Metrics
	// Clock is the time. nil means the real one.
	Clock Clock
}

// Clock is what a Queue needs of the time.
type Clock interface {
	clock.PassiveClock
	AfterFunc(d time.Duration, f func()) clock.Timer
}

// withDefaults returns the options with everything set.
func (o Options[R]) withDefaults() Options[R] {
	if o.Lane == nil {
		o.Lane = func(R) string { return "" }
	}
	if o.MaxInFlight == nil {
		o.MaxInFlight = func(string) int { return defaultMaxInFlight }
	}
	if o.Workers <= 0 {
		o.Workers = 8 * o.Places
	}
	if o.Patience <= 0 {
		o.Patience = 2 * time.Second
	}
	if o.Doubt <= 0 {
		o.Doubt = 200 * time.Millisecond
	}
	if o.RateLimiter == nil {
		o.RateLimiter = workqueue.NewTypedItemExponentialFailureRateLimiter[R](5*time.Millisecond, 1000*time.Second)
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	return o
}
