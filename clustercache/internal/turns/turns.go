package turns

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"
)

// perTarget is how many turns one target has at once.
const perTarget = 4

// Turns are the places that all targets share.
type Turns struct {
	places, slow chan struct{}
	length       time.Duration
	clock        clock.WithTickerAndDelayedExecution
}

// New returns n places, for a turn of the given length at most.
func New(n int, length time.Duration, c clock.WithTickerAndDelayedExecution) *Turns {
	return &Turns{places: make(chan struct{}, max(n, 1)), slow: make(chan struct{}, max(n/5, 1)), length: length, clock: c}
}

// Taken returns how many places are taken.
func (t *Turns) Taken() int { return len(t.places) + len(t.slow) }

// Share is what one target has of the turns.
type Share struct {
	turns *Turns
	own   chan struct{}
	slow  atomic.Bool
}

// Share returns that of another target.
func (t *Turns) Share() *Share { return &Share{turns: t, own: make(chan struct{}, perTarget)} }

// Take waits for a turn. done ends it, and says whether what it was for is done, or given up; it may be called twice. It
// returns an error if ctx ends first.
func (s *Share) Take(ctx context.Context) (done func(achieved bool), err error) {
	select {
	case s.own <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	places, err := s.line(ctx)
	if err != nil {
		<-s.own
		return nil, err
	}
	leave := sync.OnceFunc(func() { <-places; <-s.own })
	timer := s.turns.clock.AfterFunc(s.turns.length, func() {
		s.slow.Store(true)
		leave()
	})
	return func(achieved bool) {
		timer.Stop()
		if achieved {
			s.slow.Store(false)
		}
		leave()
	}, nil
}

// line waits for a place in the line that the target belongs to, which may become another one meanwhile.
func (s *Share) line(ctx context.Context) (chan struct{}, error) {
	for {
		slow := s.slow.Load()
		places := s.turns.places
		if slow {
			places = s.turns.slow
		}
		select {
		case places <- struct{}{}:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		if slow || !s.slow.Load() {
			return places, nil
		}
		<-places
	}
}
