package answers

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/trellis-hub/trellis/semaphore"
)

// maxWait bounds how long an answer waits for its seat, in addition to the context of the request.
const maxWait = 30 * time.Second

// ErrNoSeat is wrapped by the error of an answer that waited too long for a seat. It says nothing about the target.
var ErrNoSeat = errors.New("too many large answers are being read")

// size is a class of answers: those that are no larger than this.
type size struct {
	bytes    int64
	elements int
}

// The largest answers of each class. Small ones need no seat.
var (
	small  = size{64 << 10, 1 << 10}
	medium = size{1 << 20, 8 << 10}
	large  = size{8 << 20, 128 << 10}

	classes = [...]size{small, medium, large}
)

// Budget bounds the large answers of all targets together.
type Budget struct {
	seats [len(classes)]*semaphore.Semaphore // by class; nil for small ones
}

// NewBudget returns a budget of which nothing is taken.
func NewBudget() *Budget {
	b := &Budget{}
	b.seats[1] = semaphore.New(semaphore.Options{Size: 128, PerNamespace: 16, PerOwner: 4})
	b.seats[2] = semaphore.New(semaphore.Options{Size: 12, PerNamespace: 2, PerOwner: 1})
	return b
}

// Held returns how many seats are taken.
func (b *Budget) Held() (seats int64) {
	for _, s := range b.seats[1:] {
		seats += s.Held()
	}
	return seats
}

// Waiting returns how many answers wait for a seat.
func (b *Budget) Waiting() (answers int) {
	for _, s := range b.seats[1:] {
		answers += s.Waiting()
	}
	return answers
}

// seats are those that one piece of work has: an answer, or all answers in a scope.
type seats struct {
	taking chan struct{} // a lock that a caller can wait for with a context

	mu       sync.Mutex // not held while waiting
	held     [len(classes)]func()
	released bool
	waits    context.CancelCauseFunc // cancels the acquisition that is under way; nil if there is none
}

// errReleased ends the wait for a seat of an answer that was closed meanwhile.
var errReleased = errors.New("the answer was closed")

func newSeats() *seats { return &seats{taking: make(chan struct{}, 1)} }

// take takes the seats that an answer of a class needs, unless they are held already.
func (p *seats) take(ctx context.Context, b *Budget, of semaphore.Owner, class int) error {
	late := fmt.Errorf("%w: no seat for another one within %s", ErrNoSeat, maxWait)
	ctx, cancel := context.WithTimeoutCause(ctx, maxWait, late)
	defer cancel()
	select {
	case p.taking <- struct{}{}:
		defer func() { <-p.taking }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	p.mu.Lock()
	p.waits = end
	held, released := p.held, p.released
	p.mu.Unlock()
	if released {
		return errReleased
	}
	for c := 1; c <= class; c++ {
		if held[c] != nil {
			continue
		}
		release, err := b.seats[c].Acquire(ctx, of, 1)
		if err != nil {
			return err //nolint:wrapcheck // the cause of the context
		}
		if !p.keep(c, release) {
			release()
			return errReleased
		}
	}
	return nil
}

// keep notes that a seat is held. It returns false if all of them were given back meanwhile.
func (p *seats) keep(class int, release func()) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.released {
		p.held[class] = release
	}
	return !p.released
}

// release gives all seats back. None can be taken afterwards.
func (p *seats) release() {
	p.mu.Lock()
	held, waits := p.held, p.waits
	p.held, p.released = [len(classes)]func(){}, true
	p.mu.Unlock()
	if waits != nil {
		waits(errReleased)
	}
	for _, release := range held {
		if release != nil {
			release()
		}
	}
}

// scope is the work that a context is for.
type scope struct {
	mu    sync.Mutex
	seats *seats // nil until an answer needs one
	done  bool
}

type scopeKey struct{}

// Scope keeps the seats of large answers to requests with the returned context until done is called, or ctx ends: for
// as long as the decoded answers are in use. Within another scope it returns that one.
func Scope(ctx context.Context) (scoped context.Context, done func()) {
	if _, within := ctx.Value(scopeKey{}).(*scope); within {
		return ctx, func() {}
	}
	s := &scope{}
	return context.WithValue(ctx, scopeKey{}, s), s.end
}

func (s *scope) end() {
	s.mu.Lock()
	held := s.seats
	s.seats, s.done = nil, true
	s.mu.Unlock()
	if held != nil {
		held.release()
	}
}

// seatsOf returns the seats of the scope of a context; false if it has ended.
func seatsOf(ctx context.Context) (*seats, bool) {
	s, within := ctx.Value(scopeKey{}).(*scope)
	if !within {
		return nil, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.done {
		return nil, false
	}
	if s.seats == nil {
		s.seats = newSeats()
	}
	return s.seats, true
}

type pauseKey struct{}

// WithPause makes answers to requests of a context wait for their seats inside pause, which calls wait. The caller can
// thus suspend its deadline meanwhile.
func WithPause(ctx context.Context, pause func(wait func() error) error) context.Context {
	return context.WithValue(ctx, pauseKey{}, pause)
}

// Pause calls wait inside the pause that WithPause has set.
func Pause(ctx context.Context, wait func() error) error {
	if pause, ok := ctx.Value(pauseKey{}).(func(func() error) error); ok {
		return pause(wait)
	}
	return wait()
}
