package watching

import (
	"slices"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/types"
)

// Subscription is what one consumer has of a stream: a name, a handler that may be nil, and an end of its own.
type Subscription struct {
	stream  *Stream
	name    string
	handler Handler
	state   atomic.Int32 // of these below; written with the stream's mu
}

const (
	joining int32 = iota // its handler is not called yet
	joined
	closed
)

// Subscribe returns a subscription whose handler is not called, and which knows of nothing, before Join.
func (w *Stream) Subscribe(name string, handler Handler) *Subscription {
	return &Subscription{stream: w, name: name, handler: handler}
}

// Join gives the handler everything that the stream keeps, of the stream's state, and from then on of what
// changes. It waits for handlers that are being called, so it must not be called by one.
func (s *Subscription) Join() {
	w := s.stream
	w.deliver.Lock()
	defer w.deliver.Unlock()
	w.mu.Lock()
	if !s.state.CompareAndSwap(joining, joined) {
		w.mu.Unlock()
		return
	}
	w.subscribed = append(slices.Clip(w.subscribed), s)
	values, synced := w.values, w.syncedLocked() // the map is not written to, for that needs deliver
	w.mu.Unlock()
	for key, value := range values {
		s.notify(func(h Handler) { h.OnUpdate(w.spec.Cluster, s.name, key, nil, value) })
	}
	switch {
	case synced:
		s.notify(func(h Handler) { h.OnSynced(w.spec.Cluster, s.name) })
	case w.fault != nil:
		s.notify(func(h Handler) { h.OnError(w.spec.Cluster, s.name, w.fault) })
	}
}

// Close ends the subscription. No call of its handler begins after it. It returns false if it was closed before.
func (s *Subscription) Close() bool {
	w := s.stream
	w.mu.Lock()
	defer w.mu.Unlock()
	if s.state.Swap(closed) == closed {
		return false
	}
	w.subscribed = slices.DeleteFunc(slices.Clone(w.subscribed), func(other *Subscription) bool { return other == s })
	return true
}

// Live reports whether neither the subscription nor its stream has ended.
func (s *Subscription) Live() bool { return s.state.Load() != closed && s.stream.ctx.Err() == nil }

// Lookup returns what is kept of an object, and whether its absence is certain. Nothing is found once the subscription
// or its stream has ended, and nothing is certain before the handler has received it.
func (s *Subscription) Lookup(key types.NamespacedName) (value any, found, synced bool) {
	if !s.readable() {
		return nil, false, false
	}
	return s.stream.Lookup(key)
}

// Range calls f for all that is kept, until it returns false. f must not call the stream.
func (s *Subscription) Range(f func(key types.NamespacedName, value any) bool) (synced bool) {
	return s.readable() && s.stream.Range(f)
}

// readable reports whether the handler has received what the stream keeps, and neither has ended.
func (s *Subscription) readable() bool { return s.state.Load() == joined && s.stream.ctx.Err() == nil }

// notify calls the handler, unless the subscription or the stream has ended.
func (s *Subscription) notify(call func(Handler)) {
	if s.handler != nil && s.Live() {
		call(s.handler)
	}
}

func (w *Stream) subscriptions() []*Subscription {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return w.subscribed
}

// updated, deleted and synced call the handlers. They are called with deliver.
func (w *Stream) updated(key types.NamespacedName, old, value any) {
	for _, s := range w.subscriptions() {
		s.notify(func(h Handler) { h.OnUpdate(w.spec.Cluster, s.name, key, old, value) })
	}
}

func (w *Stream) deleted(key types.NamespacedName, old any) {
	for _, s := range w.subscriptions() {
		s.notify(func(h Handler) { h.OnDelete(w.spec.Cluster, s.name, key, old) })
	}
}

func (w *Stream) synced() {
	w.fault = nil
	for _, s := range w.subscriptions() {
		s.notify(func(h Handler) { h.OnSynced(w.spec.Cluster, s.name) })
	}
}
