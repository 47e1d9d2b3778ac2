package fairqueue

import (
	"time"

	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
)

// defaultMaxInFlight is how many items of a flow are in flight at once by default.
const defaultMaxInFlight = 2

// Options configure a Queue. The zero value is usable: one flow for everything, two items at a time.
type Options[R comparable] struct {
	// Flow returns the flow of an item: the target it is about. It is called each time the item becomes ready, while the
	// queue is locked: it must return quickly and not call the queue. nil means one flow for all.
	Flow func(item R) string
	// Tenant returns the tenant of an item: the namespace that it is for. A flow belongs to one tenant, and flows of one
	// name that belong to several are different ones. It is called together with Flow, under the same terms. nil means
	// that all items belong to one tenant.
	Tenant func(item R) string
	// MaxInFlight returns how many items of a flow may be in flight at once. It is called each time an item of the flow
	// comes or goes, and when the figures are read, while the queue is locked, and its answers may change. An answer
	// below one counts as one. nil means two for every flow.
	MaxInFlight func(flow string) int
	// Changes is the priority from which on an item is of the level of changes. Those below, down to zero, are of the
	// level of upkeep. Zero: all of them are changes.
	Changes int
	// Seats is how many items in flight may have a seat: all do until they Yield, or none of their Calls is
	// answered for some time. Zero: there are no seats.
	Seats int
	// Workers is how many goroutines call Get. Zero: that is not known, and tenants are not bounded.
	Workers int
	// RateLimiter says how long items that are added rate-limited have to wait. nil means exponentially longer for each
	// item, from 5 ms to 1000 s.
	RateLimiter workqueue.TypedRateLimiter[R]
	// Served is called with each item that is handed out, and how long it waited for a worker, but for those in the
	// background. It is called while the queue is locked: it must return quickly and not call the queue. nil: no calls.
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
	if o.Flow == nil {
		o.Flow = func(R) string { return "" }
	}
	if o.Tenant == nil {
		o.Tenant = func(R) string { return "" }
	}
	if o.MaxInFlight == nil {
		o.MaxInFlight = func(string) int { return defaultMaxInFlight }
	}
	if o.RateLimiter == nil {
		o.RateLimiter = workqueue.NewTypedItemExponentialFailureRateLimiter[R](5*time.Millisecond, 1000*time.Second)
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	return o
}
