package seats

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"

	"github.com/trellis-hub/trellis/semaphore"
)

const (
	// perTarget is how many seats of a kind one target holds at once.
	perTarget = 4
	// slowShare is how many seats there are for each slow one.
	slowShare = 5
)

// Limiter are the seats that all targets share.
type Limiter struct {
	fast, slow *semaphore.Semaphore
	hold       time.Duration
	clock      clock.WithDelayedExecution
}

// New returns a limiter with n seats, each of which is held for the given time at most.
func New(n int, hold time.Duration, c clock.WithDelayedExecution) *Limiter {
	limit := func(n int) *semaphore.Semaphore {
		return semaphore.New(semaphore.Options{
			Size: int64(n), PerNamespace: semaphore.NamespaceShare(int64(n)), PerOwner: perTarget,
		})
	}
	return &Limiter{fast: limit(max(n, 1)), slow: limit(max(n/slowShare, 1)), hold: hold, clock: c}
}

// Held returns how many seats are held.
func (l *Limiter) Held() int { return int(l.fast.Held() + l.slow.Held()) }

// Flow is the use of the limiter by one target.
type Flow struct {
	limiter *Limiter
	owner   semaphore.Owner
	slow    atomic.Bool
}

// Flow returns the use of the limiter by one target, which begins as not slow.
func (l *Limiter) Flow(owner semaphore.Owner) *Flow { return &Flow{limiter: l, owner: owner} }

// Acquire waits for a seat. done releases it and says whether the work was completed; it may be called twice. It
// returns the cause of ctx if that ends first.
func (t *Flow) Acquire(ctx context.Context) (done func(completed bool), err error) {
	release, err := t.acquire(ctx)
	if err != nil {
		return nil, err
	}
	timer := t.limiter.clock.AfterFunc(t.limiter.hold, func() {
		t.slow.Store(true)
		release()
	})
	var once sync.Once
	return func(completed bool) {
		once.Do(func() {
			timer.Stop()
			if completed {
				t.slow.Store(false)
			}
			release()
		})
	}, nil
}

// acquire waits for a seat of the kind that the target is entitled to, which may become another one meanwhile.
func (t *Flow) acquire(ctx context.Context) (release func(), err error) {
	if !t.slow.Load() {
		release, err := t.limiter.fast.Acquire(ctx, t.owner, 1)
		if err != nil || !t.slow.Load() {
			return release, err //nolint:wrapcheck // it is the cause of ctx
		}
		release()
	}
	return t.limiter.slow.Acquire(ctx, t.owner, 1) //nolint:wrapcheck // it is the cause of ctx
}
