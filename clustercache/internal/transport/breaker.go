package transport

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes/scheme"
)

const (
	// unansweredMost, failedMost and throttledMost are how many calls in a row may get no answer in time, an end without
	// an answer or the answer of a server that is not there, or the answer 429, until calls are refused for a while.
	unansweredMost = 3
	failedMost     = 6
	throttledMost  = 10
	// breakMin and breakMax bound for how long. It doubles until a call succeeds.
	breakMin = 5 * time.Second
	breakMax = time.Minute
	// pauseMax bounds how long calls wait because the target asked for it. A caller occupies a worker.
	pauseMax = 5 * time.Second
)

// ErrBusy is wrapped by the errors of calls that were not made, since the target has not answered others. It is a
// missed deadline that no caller had to wait for.
var ErrBusy = fmt.Errorf("the target answers probes but no calls, so none are made for a while: %w",
	context.DeadlineExceeded)

// breaker refuses the calls to a target that does not answer them, except for one from time to time. Calls that hang
// hold the workers of all targets.
type breaker struct {
	opened func() // is called with each opening, without a lock; may be nil

	mu         sync.Mutex
	unanswered int
	failed     int
	failedAt   time.Time
	throttled  int
	last       string // what the last call that counted got
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
			return ticket{}, 0, fmt.Errorf("%w; the last one got: %s", ErrBusy, b.last)
		}
		b.trial = true
		return ticket{breaker: b, trial: true, since: now}, 0, nil
	}
	return ticket{breaker: b, since: now}, b.waitUntil.Sub(now), nil
}

// reset forgets everything: the target is another one, or reached in another way.
func (b *breaker) reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.unanswered, b.failed, b.throttled, b.pause, b.waitUntil = 0, 0, 0, 0, time.Time{}
}

// ticket is for one call. The zero value is for calls that do not count.
type ticket struct {
	breaker *breaker
	trial   bool
	since   time.Time
}

// outcome takes note of how a call ended: err is nil if it was answered to the end; broken reports whether the target,
// or the way to it, ended it. What the caller ended says nothing.
func (t ticket) outcome(err error, broken bool, now time.Time) {
	t.note(now, func(b *breaker) bool {
		switch {
		case err == nil:
			b.unanswered, b.failed, b.throttled, b.pause = 0, 0, 0, 0
			return false
		case errors.Is(err, errDeadline):
			b.unanswered++
			b.last = err.Error()
		case broken:
			b.failLocked(t, err.Error(), now)
		default:
			return false
		}
		return true
	})
}

// note takes note of what became of the call. count does so, with the lock held, and reports whether that was anything
// bad: only then there may be reason to refuse calls.
func (t ticket) note(now time.Time, count func(b *breaker) bool) {
	b := t.breaker
	if b == nil {
		return
	}
	b.mu.Lock()
	b.trial = b.trial && !t.trial
	opens := count(b) && b.breakLocked(t.trial, now)
	b.mu.Unlock()
	if opens && b.opened != nil {
		b.opened()
	}
}

// failLocked counts a call that failed at once. Calls that were under way together count as one: they may have had one
// socket.
func (b *breaker) failLocked(t ticket, why string, now time.Time) {
	if t.since.After(b.failedAt) {
		b.failed++
		b.failedAt, b.last = now, why
	}
}

// answered takes note of the beginning of an answer to a call to path. It returns false if there is nothing else to
// learn from the call.
func (t ticket) answered(response *http.Response, path string, now time.Time) bool {
	switch response.StatusCode {
	case http.StatusTooManyRequests:
		t.throttle(response, now)
		return false
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		t.absent(response, path, now)
		return false
	}
	return true
}

// absent takes note of an answer that says that there is no server that could give one. An error 500 is no such answer:
// a webhook that fails is one, for one kind of object. Neither is one about a group that another server may serve: as
// long as that one is down, each call for it gets this, and the target serves everything else.
func (t ticket) absent(response *http.Response, path string, now time.Time) {
	t.note(now, func(b *breaker) bool {
		if !builtIn(path) {
			return false
		}
		if response.Header.Get("Retry-After") != "" {
			b.waitLocked(response, now)
		}
		b.failLocked(t, response.Status, now)
		return true
	})
}

// builtIn reports whether every kube-apiserver serves the group of a path itself.
func builtIn(path string) bool {
	_, path, named := strings.Cut(path, "/apis/")
	group, _, _ := strings.Cut(path, "/")
	return !named || scheme.Scheme.IsGroupRegistered(group)
}

// throttle takes note of an answer 429.
func (t ticket) throttle(response *http.Response, now time.Time) {
	t.note(now, func(b *breaker) bool {
		b.throttled++
		b.last = response.Status
		b.waitLocked(response, now)
		return true
	})
}

// waitLocked has calls wait because the target asks for it.
func (b *breaker) waitLocked(response *http.Response, now time.Time) {
	after, err := strconv.Atoi(response.Header.Get("Retry-After"))
	if err != nil || after < 0 {
		after = 1
	}
	b.waitUntil = now.Add(min(time.Duration(after)*time.Second, pauseMax))
}

// breakLocked refuses calls from now on if there is reason to. It returns whether there is.
func (b *breaker) breakLocked(trial bool, now time.Time) bool {
	if b.unanswered < unansweredMost && b.failed < failedMost && b.throttled < throttledMost || b.pause > 0 && !trial {
		return false
	}
	b.pause = min(max(2*b.pause, breakMin), breakMax)
	b.openUntil = now.Add(b.pause - rand.N(b.pause/4+1))
	return true
}

// Reset forgets what calls have come to, since the target is reached in another way now.
func (t *Throttle) Reset() { t.breaker.reset() }

// Paused reports whether calls wait because the target asked for it.
func (t *Throttle) Paused() bool {
	t.breaker.mu.Lock()
	defer t.breaker.mu.Unlock()
	return time.Now().Before(t.breaker.waitUntil)
}
