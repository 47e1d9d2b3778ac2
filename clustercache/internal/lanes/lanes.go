package lanes

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"

	"github.com/trellis-hub/trellis/semaphore"
)

const (
	// perTarget is how many places of a lane one target holds at once.
	perTarget = 4
	// slowShare is how many places there are for each one of the slow lane.
	slowShare = 5
)

// Lanes are the places that all targets share.
type Lanes struct {
	fast, slow *semaphore.Semaphore
	hold       time.Duration
	clock      clock.WithDelayedExecution
}

// New returns lanes with n places, each of which is held for the given time at most.
func New(n int, hold time.Duration, c clock.WithDelayedExecution) *Lanes {
	lane := func(n int) *semaphore.Semaphore {
		return semaphore.New(semaphore.Options{
			Size: int64(n), PerNamespace: semaphore.NamespaceShare(int64(n)), PerOwner: perTarget,
		})
	}
	return &Lanes{fast: lane(max(n, 1)), slow: lane(max(n/slowShare, 1)), hold: hold, clock: c}
}

// Held returns how many places are held.
func (l *Lanes) Held() int { return int(l.fast.Held() + l.slow.Held()) }

// Target is the use of the lanes by one target.
type Target struct {
	lanes *Lanes
	owner semaphore.Owner
	slow  atomic.Bool
}

// Target returns the use of the lanes by one target, which begins as not slow.
func (l *Lanes) Target(owner semaphore.Owner) *Target { return &Target{lanes: l, owner: owner} }

// Acquire waits for a place. done releases it and says whether the work was completed; it may be called twice. It
// returns the cause of ctx if that ends first.
func (t *Target) Acquire(ctx context.Context) (done func(completed bool), err error) {
	release, err := t.acquire(ctx)
	if err != nil {
		return nil, err
	}
	timer := t.lanes.clock.AfterFunc(t.lanes.hold, func() {
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

// acquire waits for a place of the lane that the target belongs to, which may become another one meanwhile.
func (t *Target) acquire(ctx context.Context) (release func(), err error) {
	if !t.slow.Load() {
		release, err := t.lanes.fast.Acquire(ctx, t.owner, 1)
		if err != nil || !t.slow.Load() {
			return release, err //nolint:wrapcheck // it is the cause of ctx
		}
		release()
	}
	return t.lanes.slow.Acquire(ctx, t.owner, 1) //nolint:wrapcheck // it is the cause of ctx
}
