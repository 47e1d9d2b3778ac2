package clustercache

import (
	"context"
	"errors"
	"fmt"

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
	})
	return &eventSource{name: name, events: events}
}

type eventSource struct {
	name   string
	events *stream.Stream[ClusterKey, EventType]
}

// Next implements EventSource.
func (s *eventSource) Next(ctx context.Context) (Event, error) {
	cluster, types, err := s.events.Next(ctx)
	if err != nil {
		return Event{}, fmt.Errorf("event source %s: %w", s.name, err)
	}
	return Event{Cluster: cluster, Types: types}, nil
}

// Close implements EventSource.
func (s *eventSource) Close() { s.events.Close() }

// NewSource turns the events of all targets into requests of a controller. It ends with the context that it is started
// with.
func NewSource[R comparable](cc ClusterCache, name string, requests func(ctx context.Context, e Event) []R) source.TypedSource[R] {
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
