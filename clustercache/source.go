package clustercache

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/trellis-hub/trellis/clustercache/internal/stream"
)

// GetClusterSource implements ClusterCache.
func (c *Cache) GetClusterSource(name string) EventSource {
	events := c.hub.Subscribe(func(add func(ClusterKey, ...EventType)) {
		c.mu.RLock() // so that no target goes while it is reported
		defer c.mu.RUnlock()
		for key, t := range c.targets {
			if t.current() != nil {
				add(key, EventRegistered, EventConnected)
			} else {
				add(key, EventRegistered)
			}
		}
		for namespace, all := range c.refused {
			for name := range all {
				add(ClusterKey{Namespace: namespace, Name: name}, EventRegistered)
			}
		}
	})
	return &eventSource{name: name, events: events, cache: c}
}

type eventSource struct {
	name   string
	events *stream.Stream[ClusterKey, EventType]
	cache  *Cache
}

// handling says since when consumers have been dealing with an event.
type handling struct {
	mu    sync.Mutex
	since map[*eventSource]time.Time
}

func (h *handling) begin(s *eventSource, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.since == nil {
		h.since = map[*eventSource]time.Time{}
	}
	h.since[s] = now
}

func (h *handling) end(s *eventSource) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.since, s)
}

// OldestHandling returns when the event was handed out that a consumer has been dealing with for the longest time,
// zero if all wait for the next one. Until a consumer asks for the next one it receives nothing.
func (c *Cache) OldestHandling() time.Time {
	c.handling.mu.Lock()
	defer c.handling.mu.Unlock()
	var oldest time.Time
	for _, since := range c.handling.since {
		if oldest.IsZero() || since.Before(oldest) {
			oldest = since
		}
	}
	return oldest
}

// Next implements EventSource.
func (s *eventSource) Next(ctx context.Context) (Event, error) {
	s.cache.handling.end(s)
	cluster, types, err := s.events.Next(ctx)
	if err != nil {
		return Event{}, fmt.Errorf("event source %s: %w", s.name, err)
	}
	s.cache.handling.begin(s, s.cache.options.Clock.Now())
	return Event{Cluster: cluster, Types: types}, nil
}

// Close implements EventSource.
func (s *eventSource) Close() {
	s.events.Close()
	s.cache.handling.end(s)
}

// NewSource turns the events of all targets into requests of a controller. It ends with the context that it is started
// with.
func NewSource[R comparable](cc ClusterCache, name string, requests func(
	ctx context.Context, e Event) []R) source.TypedSource[R] {
	return &requestSource[R]{cache: cc, name: name, requests: requests}
}

type requestSource[R comparable] struct {
	cache    ClusterCache
	name     string
	requests func(ctx context.Context, e Event) []R
}

// Start implements source.TypedSource.
func (s *requestSource[R]) Start(ctx context.Context, queue workqueue.TypedRateLimitingInterface[R]) error {
	events := s.cache.GetClusterSource(s.name)
	go func() {
		defer events.Close()
		for {
			event, err := events.Next(ctx)
			switch {
			case ctx.Err() != nil:
				return
			case err != nil:
				if !errors.Is(err, stream.ErrClosed) {
					logr.FromContextOrDiscard(ctx).Error(err, "Events of targets end")
				}
				return
			}
			for _, request := range s.requests(ctx, event) {
				queue.Add(request)
			}
		}
	}()
	return nil
}

// WaitForSync implements source.TypedSyncingSource: workers begin when the registrations are known.
func (s *requestSource[R]) WaitForSync(ctx context.Context) error {
	if c, ok := s.cache.(interface{ WaitForSync(context.Context) bool }); ok && !c.WaitForSync(ctx) {
		return fmt.Errorf("registrations of targets are not known yet: %w", ctx.Err())
	}
	return nil
}

// String names the source in logs.
func (s *requestSource[R]) String() string { return "targets for " + s.name }
