package answers

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/trellis-hub/trellis/clustercache/semaphore"
)

// maxWait bounds how long an answer waits for its place, beside the context of the request.
const maxWait = 30 * time.Second

// ErrNoPlace is wrapped by the error of an answer that waited too long for a place. It says nothing about the target.
var ErrNoPlace = errors.New("too many large answers are being read")

// size is a class of answers: those that are no larger than this.
type size struct {
	bytes    int64
	elements int
}

// What answers of a class have at most. Those that are small need no place.
var (
	small  = size{64 << 10, 1 << 10}
	medium = size{1 << 20, 8 << 10}
	large  = size{8 << 20, 128 << 10}

	classes = [...]size{small, medium, large}
)

// Budget is what the large answers of all targets share.
type Budget struct {
	places [len(classes)]*semaphore.Semaphore // by class; nil for small ones
}

// NewBudget returns a budget of which nothing is taken.
func NewBudget() *Budget {
	b := &Budget{}
	b.places[1] = semaphore.New(semaphore.Options{Size: 128, PerNamespace: 16, PerOwner: 4})
	b.places[2] = semaphore.New(semaphore.Options{Size: 12, PerNamespace: 2, PerOwner: 1})
	return b
}

// Held returns how many places are taken.
func (b *Budget) Held() (places int64) {
	for _, s := range b.places[1:] {
		places += s.Held()
	}
	return places
}

// Waiting returns how many answers wait for a place.
func (b *Budget) Waiting() (answers int) {
	for _, s := range b.places[1:] {
		answers += s.Waiting()
	}
	return answers
}

// places are those that one piece of work has: an answer, or all answers in a scope.
type places struct {
	taking chan struct{} // has room for who takes one
	held   [len(classes)]func()
}

func newPlaces() *places { return &places{taking: make(chan struct{}, 1)} }

// take takes the places that an answer of a class needs, unless they are held already.
func (p *places) take(ctx context.Context, b *Budget, of semaphore.Owner, class int) error {
	late := fmt.Errorf("%w: no place for another one within %s", ErrNoPlace, maxWait)
	ctx, cancel := context.WithTimeoutCause(ctx, maxWait, late)
	defer cancel()
	select {
	case p.taking <- struct{}{}:
		defer func() { <-p.taking }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	for c := 1; c <= class; c++ {
		if p.held[c] != nil {
			continue
		}
		release, err := b.places[c].Acquire(ctx, of, 1)
		if err != nil {
			return err //nolint:wrapcheck // the cause of the context
		}
		p.held[c] = release
	}
	return nil
}

// has tells whether the places that an answer of a class needs are held.
func (p *places) has(class int) bool {
	p.taking <- struct{}{}
	defer func() { <-p.taking }()
	return p.held[class] != nil
}

func (p *places) release() {
	p.taking <- struct{}{}
	defer func() { <-p.taking }()
	for c, release := range p.held {
		if release != nil {
			release()
			p.held[c] = nil
		}
	}
}

// scope is the work that a context is for.
type scope struct {
	mu     sync.Mutex
	places *places // nil until an answer needs one
	done   bool
}

type scopeKey struct{}

// Scope has the places of large answers to requests with the returned context held until done is called, at the latest
// by the end of ctx: for as long as what was made of the answers is in use. Within another scope it is that one.
func Scope(ctx context.Context) (scoped context.Context, done func()) {
	if _, within := ctx.Value(scopeKey{}).(*scope); within {
		return ctx, func() {}
	}
	s := &scope{}
	return context.WithValue(ctx, scopeKey{}, s), s.end
}

func (s *scope) end() {
	s.mu.Lock()
	held := s.places
	s.places, s.done = nil, true
	s.mu.Unlock()
	if held != nil {
		held.release()
	}
}

// placesOf returns the places of the scope of a context; false if there is none any more.
func placesOf(ctx context.Context) (*places, bool) {
	s, within := ctx.Value(scopeKey{}).(*scope)
	if !within {
		return nil, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.done {
		return nil, false
	}
	if s.places == nil {
		s.places = newPlaces()
	}
	return s.places, true
}

type pauseKey struct{}

// WithPause has answers to requests of a context wait for their places in pause, which calls wait: its deadline need
// not run meanwhile.
func WithPause(ctx context.Context, pause func(wait func() error) error) context.Context {
	return context.WithValue(ctx, pauseKey{}, pause)
}

// wait waits for what an answer needs.
func wait(ctx context.Context, f func() error) error {
	if pause, ok := ctx.Value(pauseKey{}).(func(func() error) error); ok {
		return pause(f)
	}
	return f()
}
