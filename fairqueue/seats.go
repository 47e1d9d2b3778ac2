package fairqueue

import (
	"context"
	"sync/atomic"
	"time"
)

// Work that calls its target keeps its seat for four times as long as answers take at present, within these bounds. So
// hundreds of targets that hang at once, among others that answer quickly, keep no seats for long, and a fleet that is
// slow because the machine is busy, as when the hub starts, is not worked on all at once.
const leastPatience, mostPatience = 10 * time.Millisecond, time.Second

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
	began := w.queue.options.Clock.Now()
	if w.calls.Add(1) == 1 {
		w.lastAnswer.Store(began.UnixNano())
	}
	if !w.listening.Swap(true) {
		w.queue.startListening(w)
	}
	return func() {
		now := w.queue.options.Clock.Now()
		w.lastAnswer.Store(now.UnixNano())
		w.calls.Add(-1)
		w.queue.answers.add(now.Sub(began))
	}
}

// answerTime is how long answers take at present: an exponentially weighted moving average, in nanoseconds, of what is
// at most a quarter of mostPatience each. Of two answers at the same time, one may not count.
type answerTime struct{ average atomic.Int64 }

func (a *answerTime) add(took time.Duration) {
	before := a.average.Load()
	a.average.Store(before + (int64(min(took, mostPatience/4))-before)/8)
}

// patience is how long work keeps its seat without an answer.
func (a *answerTime) patience() time.Duration {
	return min(max(4*time.Duration(a.average.Load()), leastPatience), mostPatience)
}

func (q *Queue[R]) startListening(w *work[R]) {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	if w.seated && q.options.Seats > 0 {
		q.listenFor(w, q.answers.patience())
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
	now, left := q.options.Clock.Now(), q.answers.patience()
	if w.calls.Load() > 0 {
		left -= now.Sub(time.Unix(0, w.lastAnswer.Load()))
	}
	if left > 0 {
		q.listenFor(w, left)
		return
	}
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
