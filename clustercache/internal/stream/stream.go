// Package stream hands what happened to keyed things to consumers of any speed. For each consumer and key it remembers
// each kind of event at most once, in the order of their last occurrence, so that a consumer that never reads costs a
// bounded amount of memory and never delays the publisher.
package stream

import (
	"context"
	"errors"
	"slices"
	"sync"
)

// ErrClosed is returned by Next once the stream is closed.
var ErrClosed = errors.New("event stream is closed")

// Hub publishes events to streams.
type Hub[K comparable, T comparable] struct {
	end T

	mu      sync.Mutex
	streams map[*Stream[K, T]]struct{}
}

// NewHub returns a hub. end is the event after which nothing is left of a key: a consumer that got no event of the key
// before gets neither that event nor those that were pending before it.
func NewHub[K comparable, T comparable](end T) *Hub[K, T] {
	return &Hub[K, T]{end: end, streams: map[*Stream[K, T]]struct{}{}}
}

// Publish hands events of one key to all streams. It never blocks for long.
func (h *Hub[K, T]) Publish(key K, events ...T) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for s := range h.streams {
		s.add(key, events...)
	}
}

// Subscribe opens a stream. seed is called once with a function that adds initial events; what is published after seed
// was called is not missed.
func (h *Hub[K, T]) Subscribe(seed func(add func(key K, events ...T))) *Stream[K, T] {
	s := &Stream[K, T]{
		hub: h, pending: map[K][]T{}, known: map[K]struct{}{}, wake: make(chan struct{}, 1), closed: make(chan struct{}),
	}
	h.mu.Lock()
	h.streams[s] = struct{}{}
	h.mu.Unlock()
	seed(s.add)
	return s
}

// Len returns the number of open streams.
func (h *Hub[K, T]) Len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.streams)
}

// Stream is one consumer's view of a Hub.
type Stream[K comparable, T comparable] struct {
	hub    *Hub[K, T]
	wake   chan struct{}
	closed chan struct{}
	once   sync.Once

	mu      sync.Mutex
	order   []K
	pending map[K][]T
	known   map[K]struct{} // keys that the consumer knows of, and whose end it does not know of
}

func (s *Stream[K, T]) add(key K, events ...T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, event := range events {
		if event == s.hub.end {
			if _, known := s.known[key]; !known {
				s.drop(key)
				continue
			}
		}
		if _, exists := s.pending[key]; !exists {
			s.order = append(s.order, key)
		}
		s.pending[key] = append(slices.DeleteFunc(s.pending[key], func(e T) bool { return e == event }), event)
	}
	if len(s.order) > 0 {
		select {
		case s.wake <- struct{}{}:
		default:
		}
	}
}

func (s *Stream[K, T]) drop(key K) {
	if _, exists := s.pending[key]; exists {
		delete(s.pending, key)
		s.order = slices.DeleteFunc(s.order, func(k K) bool { return k == key })
	}
}

// Next blocks until there are events of some key, ctx ends or the stream is closed. The key that has waited longest
// comes first.
func (s *Stream[K, T]) Next(ctx context.Context) (K, []T, error) {
	var none K
	for {
		if ctx.Err() != nil {
			return none, nil, ctx.Err()
		}
		if key, events, ok := s.pop(); ok {
			return key, events, nil
		}
		select {
		case <-s.wake:
		case <-s.closed:
			return none, nil, ErrClosed
		case <-ctx.Done():
			return none, nil, ctx.Err()
		}
	}
}

func (s *Stream[K, T]) pop() (key K, events []T, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.order) == 0 {
		return key, nil, false
	}
	key = s.order[0]
	s.order = s.order[1:]
	events = s.pending[key]
	delete(s.pending, key)
	s.known[key] = struct{}{}
	if events[len(events)-1] == s.hub.end {
		delete(s.known, key)
	}
	return key, events, true
}

// Close ends the stream and drops what is pending.
func (s *Stream[K, T]) Close() {
	s.once.Do(func() {
		s.hub.mu.Lock()
		delete(s.hub.streams, s)
		s.hub.mu.Unlock()
		s.mu.Lock()
		s.order, s.pending, s.known = nil, map[K][]T{}, map[K]struct{}{}
		s.mu.Unlock()
		close(s.closed)
	})
}
