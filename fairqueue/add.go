package fairqueue

import (
	"time"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
)

// Add adds an item that is ready at once, with priority 0.
func (q *Queue[R]) Add(item R) {
	q.AddWithOpts(priorityqueue.AddOpts{}, item)
}

// AddAfter adds an item that is ready after a while, with priority 0.
func (q *Queue[R]) AddAfter(item R, after time.Duration) {
	q.AddWithOpts(priorityqueue.AddOpts{After: after}, item)
}

// AddRateLimited adds an item that is ready when the rate limiter says so, with priority 0.
func (q *Queue[R]) AddRateLimited(item R) {
	q.AddWithOpts(priorityqueue.AddOpts{RateLimited: true}, item)
}

// AddWithOpts adds items. An item that is in the queue already keeps the higher priority and the shorter delay; if its
// priority rises, it goes behind those that have the new priority. After ShutDown nothing is added.
func (q *Queue[R]) AddWithOpts(o priorityqueue.AddOpts, items ...R) {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	if q.shutDown {
		return
	}
	now := q.options.Clock.Now()
	for _, item := range items {
		q.add(item, ptr.Deref(o.Priority, 0), now.Add(q.delay(o, item)), now)
	}
	q.schedule(now)
	q.wake()
}

// delay returns how long an item has to wait: if both a delay and the rate limiter are asked for, the shorter of the
// two.
func (q *Queue[R]) delay(o priorityqueue.AddOpts, item R) time.Duration {
	delay := max(0, o.After)
	if o.RateLimited {
		limited := q.options.RateLimiter.When(item)
		if o.After == 0 || limited < delay {
			delay = limited
		}
	}
	return delay
}

// add adds one item, or changes the entry that it has.
func (q *Queue[R]) add(item R, priority int, readyAt, now time.Time) {
	e, exists := q.entries[item]
	if !exists {
		e = &entry[R]{item: item, priority: priority, readyAt: readyAt, index: notInHeap}
		q.entries[item] = e
		if readyAt.After(now) {
			q.delayed.push(e)
		} else {
			q.becomeReady(e)
		}
		return
	}

	raised, wasUrgent := priority > e.priority, e.urgent()
	e.priority = max(e.priority, priority)
	if !wasUrgent && e.urgent() && e.readyAt.Before(now) {
		e.readyAt = now // it was not urgent until then, so it did not wait
	}
	switch {
	case e.flow != nil:
		q.replace(e, raised)
	case e.held:
		// Nothing is in order before Done.
	case !readyAt.After(now):
		q.delayed.remove(e)
		e.readyAt = readyAt
		q.becomeReady(e)
	case readyAt.Before(e.readyAt):
		e.readyAt = readyAt
		q.delayed.update(e)
	}
}

// becomeReady makes an entry ready that is new or was delayed.
func (q *Queue[R]) becomeReady(e *entry[R]) {
	e.order = q.number()
	q.metrics.added()
	q.enter(e)
}

// replace puts a ready entry where it belongs after its priority rose or its flow changed.
func (q *Queue[R]) replace(e *entry[R], raised bool) {
	if raised {
		e.order = q.number()
	}
	old := e.flow
	if q.keyOf(e.item) == old.key {
		old.ready.update(e)
		q.settle(old)
		return
	}
	q.leave(e)
	q.settle(old)
	q.enter(e)
	q.clear(old)
}
