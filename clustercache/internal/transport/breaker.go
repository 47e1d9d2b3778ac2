package transport

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"time"
)

const (
	// unansweredMost and throttledMost are how many calls in a row may get no answer in time, or the answer 429, until
	// calls are refused for a while.
	unansweredMost = 3
	throttledMost  = 10
	// breakMin and breakMax bound for how long. It doubles until a call succeeds.
	breakMin = 5 * time.Second
	breakMax = time.Minute
	// pauseMax bounds how long calls wait because the target asked for it. Whoever calls holds a worker.
	pauseMax = 5 * time.Second
)

// ErrBusy is wrapped by the errors of calls that were not made, since the target has not answered others. It is a missed
// deadline that nobody had to wait for.
var ErrBusy = fmt.Errorf("the target answers probes but no calls, so none are made for a while: %w", context.DeadlineExceeded)

// breaker refuses the calls to a target that does not answer them, except for one from time to time. Calls that hang hold
// the workers of all targets.
type breaker struct {
	opened func() // hears of each opening; may be nil

	mu         sync.Mutex
	unanswered int
	throttled  int
	pause      time.Duration
	openUntil  time.Time
	trial      bool // a call is under way that finds out how it is
	waitUntil  time.Time
}

// admit lets a call pass or refuses it. ticket is to be given back with its outcome.
func (b *breaker) admit(now time.Time) (t ticket, wait time.Duration, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.pause > 0 {
		if now.Before(b.openUntil) || b.trial {
			return ticket{}, 0, ErrBusy
		}
		b.trial = true
		return ticket{breaker: b, trial: true}, 0, nil
	}
	return ticket{breaker: b}, b.waitUntil.Sub(now), nil
}

// ticket is for one call. The zero value is for calls that do not count.
type ticket struct {
	breaker *breaker
	trial   bool
}

// outcome takes note of how a call ended: err is nil if it was answered to the end. What the caller ended says nothing.
func (t ticket) outcome(err error, now time.Time) {
	b := t.breaker
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.trial = b.trial && !t.trial
	switch {
	case err == nil:
		b.unanswered, b.throttled, b.pause = 0, 0, 0
	case errors.Is(err, errDeadline):
		b.unanswered++
	}
	b.breakLocked(t.trial, now)
}

// throttle takes note of an answer 429.
func (t ticket) throttle(response *http.Response, now time.Time) {
	b := t.breaker
	if b == nil {
		return
	}
	after, err := strconv.Atoi(response.Header.Get("Retry-After"))
	if err != nil || after < 0 {
		after = 1
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.trial = b.trial && !t.trial
	b.throttled++
	b.waitUntil = now.Add(min(time.Duration(after)*time.Second, pauseMax))
	b.breakLocked(t.trial, now)
}

// breakLocked refuses calls from now on if there is reason to.
func (b *breaker) breakLocked(trial bool, now time.Time) {
	if b.unanswered < unansweredMost && b.throttled < throttledMost || b.pause > 0 && !trial {
		return
	}
	b.pause = min(max(2*b.pause, breakMin), breakMax)
	b.openUntil = now.Add(b.pause - rand.N(b.pause/4+1))
	if b.opened != nil {
		b.opened()
	}
}

// Paused tells whether calls wait because the target asked for it.
func (t *Throttle) Paused() bool {
	t.breaker.mu.Lock()
	defer t.breaker.mu.Unlock()
	return time.Now().Before(t.breaker.waitUntil)
}
