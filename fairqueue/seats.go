package fairqueue

import (
	"context"
	"time"
)

// Work that calls its target keeps its seat for some time without an answer. That time is patience at first, and stays
// between the other two. It is halved whenever work gave up its seat, so hundreds of targets that hang at once keep no
// seats for long, and doubled when an answer comes after all, so a fleet that is slow because the machine is busy is not
// worked on all at once.
const patience, leastPatience, mostPatience = 200 * time.Millisecond, 10 * time.Millisecond, time.Second

// seatKey is the key of a context for the seat of the work that it is for.
type seatKey struct{}

// seat is what work does with its seat.
type seat interface {
	yield()
	call() (answered func())
}

// Context returns a context for the work on an item that is in flight, with which it can Yield and Call.
func (q *Queue[R]) Context(ctx context.Context, item R) context.Context {
	q.mutex.Lock()
	w := q.inFlight[item]
	q.mutex.Unlock()
	if w == nil {
		return ctx
	}
	return context.WithValue(ctx, seatKey{}, w)
}

// Yield gives up the seat of the work that a context of Queue.Context is for, until that is done. Without such a
// context, or a second time, it does nothing.
func Yield(ctx context.Context) {
	if s, ok := ctx.Value(seatKey{}).(seat); ok {
		s.yield()
	}
}

// Call says that the work that a context of Queue.Context is for waits for its target from now on, until the returned
// function is called, which has to be done once. There may be several calls at a time. If none is answered for some
// time, the work gives up its seat until it is done. Without such a context, nothing happens.
func Call(ctx context.Context) (answered func()) {
	if s, ok := ctx.Value(seatKey{}).(seat); ok {
		return s.call()
	}
	return func() {}
}

func (w *work[R]) yield() {
	q := w.queue
	q.mutex.Lock()
	defer q.mutex.Unlock()
	if w.seated {
		q.movedAt = q.options.Clock.Now()
		q.unseat(w)
		q.wake()
	}
}

func (w *work[R]) call() (answered func()) {
	if w.calls.Add(1) == 1 {
		w.heard.Store(w.queue.options.Clock.Now().UnixNano())
	}
	if !w.listening.Swap(true) {
		w.queue.startListening(w)
	}
	return func() {
		w.heard.Store(w.queue.options.Clock.Now().UnixNano())
		w.calls.Add(-1)
		if w.silent.Swap(false) {
			w.queue.slow()
		}
	}
}

// slow notes that a target was not silent, but slow.
func (q *Queue[R]) slow() {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	q.patience = min(2*q.patience, mostPatience)
}

func (q *Queue[R]) startListening(w *work[R]) {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	if w.seated && q.options.Seats > 0 {
		q.listenFor(w, q.patience)
	}
}

// listenFor has listen called after a time, in a goroutine of its own: fake clocks call while they hold the lock that
// is needed to ask for the time.
func (q *Queue[R]) listenFor(w *work[R], d time.Duration) {
	w.timer = q.options.Clock.AfterFunc(d, func() { go q.listen(w) })
}

// listen has work give up its seat if its target is silent, or listens on.
func (q *Queue[R]) listen(w *work[R]) {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	if !w.seated {
		return
	}
	now, left := q.options.Clock.Now(), q.patience
	if w.calls.Load() > 0 {
		left -= now.Sub(time.Unix(0, w.heard.Load()))
	}
	if left > 0 {
		q.listenFor(w, left)
		return
	}
	q.patience = max(q.patience/2, leastPatience)
	w.silent.Store(true)
	q.movedAt = now
	q.unseat(w)
	q.wake()
}

// unseat takes its seat from an item in flight.
func (q *Queue[R]) unseat(w *work[R]) {
	w.seated = false
	if w.timer != nil {
		w.timer.Stop()
	}
	q.seated--
	w.flow.seated--
	w.flow.tenant.seated--
	q.reorder(w.flow.tenant)
}
