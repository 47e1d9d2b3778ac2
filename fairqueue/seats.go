package fairqueue

import (
	"context"
	"net/http/httptrace"
	"time"
)

// Work that calls its target keeps its seat for some time without an answer. That time begins with the first of these
// and stays between the others. It is halved whenever work gave up its seat, so hundreds of targets that hang at once
// keep no seats for long, and doubled when an answer comes after all, so a fleet that is slow because the machine is busy
// is not worked on all at once.
const patience, leastPatience, mostPatience = 200 * time.Millisecond, 10 * time.Millisecond, time.Second

// seatKey is the key of a context for the seat of the work that it is for.
type seatKey struct{}

// seat is what work does with its seat.
type seat struct{ yield, await func() }

// Context returns a context for the work on an item that is in flight, with which it can Yield and AwaitAnswers. Calls
// by net/http with this context, or one derived from it, notify the queue of their answers.
func (q *Queue[R]) Context(ctx context.Context, item R) context.Context {
	q.mutex.Lock()
	w := q.inFlight[item]
	q.mutex.Unlock()
	if w == nil {
		return ctx
	}
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotFirstResponseByte: func() { q.answered(w) },
	})
	return context.WithValue(ctx, seatKey{}, seat{yield: func() { q.yield(w) }, await: func() { q.await(w) }})
}

// Yield gives up the seat of the work that a context of Queue.Context is for, until that is done. Without such a
// context, or a second time, it does nothing.
func Yield(ctx context.Context) {
	if s, ok := ctx.Value(seatKey{}).(seat); ok {
		s.yield()
	}
}

// AwaitAnswers says that the work that a context of Queue.Context is for calls its target from now on. It keeps its seat
// while answers come, and gives it up, until it is done, when there was none for some time. Without such a context, or a
// second time, it does nothing.
func AwaitAnswers(ctx context.Context) {
	if s, ok := ctx.Value(seatKey{}).(seat); ok {
		s.await()
	}
}

func (q *Queue[R]) yield(w *work[R]) {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	if w.seated {
		q.movedAt = q.options.Clock.Now()
		q.unseat(w)
		q.wake()
	}
}

func (q *Queue[R]) await(w *work[R]) {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	if w.seated && w.timer == nil && q.options.Seats > 0 {
		w.answered.Store(q.options.Clock.Now().UnixNano())
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
	now := q.options.Clock.Now()
	if left := q.patience - now.Sub(time.Unix(0, w.answered.Load())); left > 0 {
		q.listenFor(w, left)
		return
	}
	q.patience = max(q.patience/2, leastPatience)
	w.silent.Store(true)
	q.movedAt = now
	q.unseat(w)
	q.wake()
}

// answered notes an answer to work.
func (q *Queue[R]) answered(w *work[R]) {
	w.answered.Store(q.options.Clock.Now().UnixNano())
	if w.silent.Swap(false) {
		q.mutex.Lock()
		defer q.mutex.Unlock()
		q.patience = min(2*q.patience, mostPatience)
	}
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
