package subscription

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/trellis-hub/trellis/clustercache/internal/watching"
)

// Set holds the streams of one target.
type Set struct {
	ctx     context.Context
	running *sync.WaitGroup
	added   func()

	mu      sync.RWMutex
	streams map[key]*stream // nil once the set is closed
}

// NewSet returns a set without streams. They end with ctx at the latest, and running counts their goroutines. added is
// called when there is a stream that is not bound yet.
func NewSet(ctx context.Context, running *sync.WaitGroup, added func()) *Set {
	return &Set{ctx: ctx, running: running, added: added, streams: map[key]*stream{}}
}

// Subscribe adds a subscription under the name of the spec, nil once the set is closed. form names the Transform of the
// spec.
func (s *Set) Subscribe(spec watching.Spec, form string, handler watching.Handler) *Subscription {
	k := keyOf(&spec, form)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.streams == nil {
		return nil
	}
	w, exists := s.streams[k]
	if !exists {
		w = &stream{key: k, Stream: watching.NewStream(s.ctx, spec)}
		s.streams[k] = w
	}
	w.subscriptions++
	subscription := &Subscription{Subscription: w.Subscribe(spec.Name, handler), set: s, stream: w}
	if exists {
		s.running.Go(subscription.Join) // handlers may be at work, and this may be called by one
		return subscription
	}
	subscription.Join() // no other goroutine has the stream yet
	s.added()
	return subscription
}

// leave ends a stream with its last subscription.
func (s *Set) leave(w *stream) {
	s.mu.Lock()
	w.subscriptions--
	last := w.subscriptions == 0
	if last && s.streams[w.key] == w {
		delete(s.streams, w.key)
	}
	s.mu.Unlock()
	if last {
		w.Close()
	}
}

// Close ends all streams.
func (s *Set) Close() {
	s.mu.Lock()
	streams := s.streams
	s.streams = nil
	s.mu.Unlock()
	for _, w := range streams {
		w.Close()
	}
}

// Bind starts the streams over a connection that do not run over it yet.
func (s *Set) Bind(c *watching.Connection) {
	for _, w := range s.all() {
		if w.boundTo == c {
			continue
		}
		w.boundTo = c
		b := watching.Bind(w.Stream, c)
		w.Promote(b)
		b.Start(s.running)
	}
}

// Rewind has all streams list again over a connection, and take nothing that they keep for known.
func (s *Set) Rewind(c *watching.Connection) {
	for _, w := range s.all() {
		w.Distrust()
		w.boundTo = nil
	}
	s.Bind(c)
}

// MendSilent has streams opened again that are silent for too long, and calls mended with the name of each.
func (s *Set) MendSilent(now time.Time, mended func(name string)) {
	for _, w := range s.all() {
		if mend := w.Silent(now); mend != nil {
			mended(w.Name())
			s.running.Go(mend)
		}
	}
}

// State is that of a stream with a name.
type State struct {
	Name string
	watching.State
}

// States returns the states of all streams, in no order.
func (s *Set) States() []State {
	streams := s.all()
	states := make([]State, len(streams))
	for i, w := range streams {
		states[i] = State{w.Name(), w.State()}
	}
	return states
}

// Reader reads from the streams.
func (s *Set) Reader(scheme *runtime.Scheme) *watching.Reader {
	return &watching.Reader{Scheme: scheme, Watches: func() []*watching.Stream {
		streams := s.all()
		all := make([]*watching.Stream, len(streams))
		for i, w := range streams {
			all[i] = w.Stream
		}
		return all
	}}
}

func (s *Set) all() []*stream {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Collect(maps.Values(s.streams))
}
