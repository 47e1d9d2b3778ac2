package fairqueue

import "context"

// yieldKey is the key of a context for the function that gives up a seat.
type yieldKey struct{}

// Context returns a context for the work on an item, with which it can Yield.
func (q *Queue[R]) Context(ctx context.Context, item R) context.Context {
	return context.WithValue(ctx, yieldKey{}, func() { q.yield(item) })
}

// Yield gives up the seat of the work that a context of Queue.Context is for, until that is done. Work calls it before
// it waits for its target. Without such a context, or a second time, it does nothing.
func Yield(ctx context.Context) {
	if yield, ok := ctx.Value(yieldKey{}).(func()); ok {
		yield()
	}
}

func (q *Queue[R]) yield(item R) {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	if w := q.inFlight[item]; w != nil && w.seated {
		q.movedAt = q.options.Clock.Now()
		q.unseat(w)
		q.wake()
	}
}

// unseat takes its seat from an item in flight.
func (q *Queue[R]) unseat(w *work[R]) {
	w.seated = false
	q.seated--
	w.flow.seated--
	w.flow.tenant.seated--
	q.reorder(w.flow.tenant)
}
