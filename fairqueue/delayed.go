package fairqueue

import "time"

// schedule sets the timer for the first delayed entry. A timer that fires too early, because that entry is gone, is
// left alone: it will set the next.
func (q *Queue[R]) schedule(now time.Time) {
	if q.delayed.len() == 0 {
		return
	}
	due := q.delayed.first().readyAt
	if q.timer != nil {
		if !due.Before(q.timerAt) {
			return
		}
		q.timer.Stop()
	}
	q.timerAt = due
	// The goroutine of its own is for fake clocks, which call while they hold the lock that release needs to ask for the
	// time. A real clock's call is in a goroutine anyway.
	q.timer = q.options.Clock.AfterFunc(due.Sub(now), func() { go q.release(due) })
}

// release makes the entries ready that are due. It is called by the timer that was set for the given time.
func (q *Queue[R]) release(timerAt time.Time) {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	if q.shutDown {
		return
	}
	if q.timer != nil && q.timerAt.Equal(timerAt) {
		q.timer = nil
	}
	now := q.options.Clock.Now()
	for q.delayed.len() > 0 && !q.delayed.first().readyAt.After(now) {
		e := q.delayed.first()
		q.delayed.remove(e)
		q.becomeReady(e)
	}
	q.schedule(now)
	q.wake()
}
