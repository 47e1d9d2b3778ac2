package mapperpool

import (
	"context"
	"maps"
	"net/http"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
)

// Mapper maps the kinds of one target. It is safe for concurrent use.
type Mapper struct {
	pool   *Pool
	ctx    context.Context
	config *rest.Config
	client *http.Client

	mu          sync.Mutex
	entry       *entry
	tags        documents // ETags of the target for what the entry was made of
	reset       bool      // Reset was called since the last refresh
	refreshedAt time.Time
	failure     error                // of the last refresh
	retryAt     time.Time            // no refresh before it after a failure
	flight      *flight              // the refresh under way, or nil
	ended       bool                 // its context has ended
	suspected   map[string]time.Time // when a group was, a moment ago
}

// suspectPause is how long what discovery says of a group is not suspected again.
const suspectPause = 5 * time.Second

// flight is a refresh that several callers wait for.
type flight struct {
	reset bool // it answers a Reset
	done  chan struct{}
	err   error // set before done is closed
}

var (
	_ meta.ResettableRESTMapper            = &Mapper{}
	_ meta.ResettableRESTMapperWithContext = &Mapper{}
)

// Mapper returns a mapper for a target. Its calls end with ctx. seed, if not nil, is an older mapper of the same
// target, whose content is used until it is found to be outdated.
func (p *Pool) Mapper(ctx context.Context, config *rest.Config, client *http.Client, seed *Mapper) *Mapper {
	m := &Mapper{pool: p, ctx: ctx, config: config, client: client}
	if seed != nil {
		seed.mu.Lock()
		m.entry, m.tags, m.reset = seed.entry, seed.tags, true
		seed.mu.Unlock()
		p.exchange(nil, m.entry)
	}
	context.AfterFunc(ctx, m.end)
	return m
}

// end notes that the mapper is not used any longer.
func (m *Mapper) end() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ended = true
	m.pool.exchange(m.entry, nil)
}

// Reset makes the next call ask for discovery again, unless that has just failed. Call it after a CRD was installed or
// removed.
func (m *Mapper) Reset() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reset = true
}

// ResetWithContext is Reset, which waits for nothing.
func (m *Mapper) ResetWithContext(context.Context) { m.Reset() }

// Suspect is Reset after the target did not serve a resource of a group that it is said to serve. It returns false, and
// does nothing, if that was said of the group just now, or discovery has just been asked for: a target that never
// serves what it promises must not be asked all the time.
func (m *Mapper) Suspect(group string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	now, least := m.pool.options.Clock.Now(), m.pool.options.MinRefresh
	if m.flight != nil || now.Sub(m.refreshedAt) < least || now.Sub(m.suspected[group]) < suspectPause {
		return false
	}
	maps.DeleteFunc(m.suspected, func(_ string, at time.Time) bool { return now.Sub(at) >= suspectPause })
	if m.suspected == nil {
		m.suspected = map[string]time.Time{}
	}
	m.suspected[group] = now
	m.reset = true
	return true
}

// Refresh asks for discovery unless the mapper is up to date as far as it knows, even after a recent failure.
func (m *Mapper) Refresh(ctx context.Context) error {
	m.mu.Lock()
	m.failure = nil
	m.mu.Unlock()
	_, err := m.current(ctx)
	return err
}

// current returns the entry, asking for discovery first if there is none or Reset was called.
func (m *Mapper) current(ctx context.Context) (*entry, error) {
	for {
		m.mu.Lock()
		switch {
		case m.entry != nil && !m.reset:
			defer m.mu.Unlock()
			return m.entry, nil
		case m.failedLocked():
			defer m.mu.Unlock()
			return nil, m.failure
		}
		joined := m.flight != nil
		f := m.startLocked() //nolint:contextcheck // a refresh that callers share ends with none of them
		m.mu.Unlock()
		found, err := m.await(ctx, f)
		if err != nil || !joined {
			return found, err
		}
		// The flight may have left before Reset was called, so look again.
	}
}

// newer returns an entry that is newer than the one given, or nil if there is none and it is too early to ask again.
func (m *Mapper) newer(ctx context.Context, than *entry) (*entry, error) {
	m.mu.Lock()
	switch {
	case m.entry != than:
		defer m.mu.Unlock()
		return m.entry, nil
	case m.failedLocked():
		defer m.mu.Unlock()
		return nil, m.failure
	case m.flight == nil && m.pool.options.Clock.Since(m.refreshedAt) < m.pool.options.MinRefresh:
		m.mu.Unlock()
		return nil, nil
	}
	f := m.startLocked() //nolint:contextcheck // a refresh that callers share ends with none of them
	m.mu.Unlock()
	return m.await(ctx, f)
}

// failedLocked reports whether a refresh failed so recently that the next one is not worth its time.
func (m *Mapper) failedLocked() bool {
	return m.flight == nil && m.failure != nil && m.pool.options.Clock.Now().Before(m.retryAt)
}

// startLocked joins the refresh under way or starts one.
func (m *Mapper) startLocked() *flight {
	if m.flight == nil {
		m.flight = &flight{done: make(chan struct{}), reset: m.reset}
		m.reset = false
		go m.refresh(m.flight, discovered{m.entry, m.tags})
	}
	return m.flight
}

func (m *Mapper) refresh(f *flight, known discovered) {
	ctx, cancel := context.WithTimeout(m.ctx, m.pool.options.Timeout)
	defer cancel()
	if known.entry == nil {
		known = m.pool.offer()
	}
	began := m.pool.options.Clock.Now()
	found, err := m.pool.discover(ctx, m.config, m.client, known)

	m.mu.Lock()
	defer m.mu.Unlock()
	m.flight = nil
	m.refreshedAt = m.pool.options.Clock.Now()
	m.failure = err
	if err != nil {
		f.err = err
		// As long as the failure took: a caller that asks for many kinds, one after the other, spends at most half of its
		// time here.
		m.retryAt = m.refreshedAt.Add(m.refreshedAt.Sub(began))
		m.reset = m.reset || f.reset
	} else {
		if !m.ended {
			m.pool.exchange(m.entry, found.entry)
		}
		m.entry, m.tags = found.entry, found.tags
	}
	close(f.done)
}

func (m *Mapper) await(ctx context.Context, f *flight) (*entry, error) {
	select {
	case <-f.done:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if f.err != nil {
		return nil, f.err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.entry, nil
}

// lookup asks the current entry and, if it has no match, a newer one.
func lookup[T any](ctx context.Context, m *Mapper, group string, ask func(meta.RESTMapper) (T, error)) (T, error) {
	var none T
	current, err := m.current(ctx)
	if err != nil {
		return none, err
	}
	answer, err := ask(current.mapper)
	if !meta.IsNoMatchError(err) {
		return answer, err
	}
	newer, refreshErr := m.newer(ctx, current)
	if refreshErr != nil {
		return none, refreshErr
	}
	if newer != nil && newer != current {
		if answer, err = ask(newer.mapper); !meta.IsNoMatchError(err) {
			return answer, err
		}
		current = newer
	}
	if broken := current.brokenGroup(group); broken != nil {
		return none, broken
	}
	return none, err
}

// brokenGroup returns an error if discovery failed for a version of the group.
func (e *entry) brokenGroup(group string) error {
	broken := map[schema.GroupVersion]error{}
	for version, err := range e.failed {
		if version.Group == group {
			broken[version] = err
		}
	}
	if len(broken) == 0 {
		return nil
	}
	return &discovery.ErrGroupDiscoveryFailed{Groups: broken}
}

// KindFor implements meta.RESTMapper.
func (m *Mapper) KindFor(resource schema.GroupVersionResource) (schema.GroupVersionKind, error) {
	return m.KindForWithContext(m.ctx, resource)
}

// KindsFor implements meta.RESTMapper.
func (m *Mapper) KindsFor(resource schema.GroupVersionResource) ([]schema.GroupVersionKind, error) {
	return m.KindsForWithContext(m.ctx, resource)
}

// ResourceFor implements meta.RESTMapper.
func (m *Mapper) ResourceFor(input schema.GroupVersionResource) (schema.GroupVersionResource, error) {
	return m.ResourceForWithContext(m.ctx, input)
}

// ResourcesFor implements meta.RESTMapper.
func (m *Mapper) ResourcesFor(input schema.GroupVersionResource) ([]schema.GroupVersionResource, error) {
	return m.ResourcesForWithContext(m.ctx, input)
}

// RESTMapping implements meta.RESTMapper.
func (m *Mapper) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	return m.RESTMappingWithContext(m.ctx, kind, versions...)
}

// RESTMappings implements meta.RESTMapper.
func (m *Mapper) RESTMappings(kind schema.GroupKind, versions ...string) ([]*meta.RESTMapping, error) {
	return m.RESTMappingsWithContext(m.ctx, kind, versions...)
}

// ResourceSingularizer implements meta.RESTMapper.
func (m *Mapper) ResourceSingularizer(resource string) (string, error) {
	return m.ResourceSingularizerWithContext(m.ctx, resource)
}

// KindForWithContext implements meta.RESTMapperWithContext.
func (m *Mapper) KindForWithContext(
	ctx context.Context, resource schema.GroupVersionResource,
) (schema.GroupVersionKind, error) {
	return lookup(ctx, m, resource.Group, func(r meta.RESTMapper) (schema.GroupVersionKind, error) {
		return r.KindFor(resource)
	})
}

// KindsForWithContext implements meta.RESTMapperWithContext.
func (m *Mapper) KindsForWithContext(
	ctx context.Context, resource schema.GroupVersionResource,
) ([]schema.GroupVersionKind, error) {
	return lookup(ctx, m, resource.Group, func(r meta.RESTMapper) ([]schema.GroupVersionKind, error) {
		return r.KindsFor(resource)
	})
}

// ResourceForWithContext implements meta.RESTMapperWithContext.
func (m *Mapper) ResourceForWithContext(
	ctx context.Context, input schema.GroupVersionResource,
) (schema.GroupVersionResource, error) {
	return lookup(ctx, m, input.Group, func(r meta.RESTMapper) (schema.GroupVersionResource, error) {
		return r.ResourceFor(input)
	})
}

// ResourcesForWithContext implements meta.RESTMapperWithContext.
func (m *Mapper) ResourcesForWithContext(
	ctx context.Context, input schema.GroupVersionResource,
) ([]schema.GroupVersionResource, error) {
	return lookup(ctx, m, input.Group, func(r meta.RESTMapper) ([]schema.GroupVersionResource, error) {
		return r.ResourcesFor(input)
	})
}

// RESTMappingWithContext implements meta.RESTMapperWithContext.
func (m *Mapper) RESTMappingWithContext(
	ctx context.Context, kind schema.GroupKind, versions ...string,
) (*meta.RESTMapping, error) {
	return lookup(ctx, m, kind.Group, func(r meta.RESTMapper) (*meta.RESTMapping, error) {
		return r.RESTMapping(kind, versions...)
	})
}

// RESTMappingsWithContext implements meta.RESTMapperWithContext.
func (m *Mapper) RESTMappingsWithContext(
	ctx context.Context, kind schema.GroupKind, versions ...string,
) ([]*meta.RESTMapping, error) {
	return lookup(ctx, m, kind.Group, func(r meta.RESTMapper) ([]*meta.RESTMapping, error) {
		return r.RESTMappings(kind, versions...)
	})
}

// ResourceSingularizerWithContext implements meta.RESTMapperWithContext.
func (m *Mapper) ResourceSingularizerWithContext(ctx context.Context, resource string) (string, error) {
	return lookup(ctx, m, "", func(r meta.RESTMapper) (string, error) {
		return r.ResourceSingularizer(resource)
	})
}
