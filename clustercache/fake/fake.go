// Package fake offers a ClusterCache for tests of controllers: targets are added with the client that they are to have,
// their state is set, events are emitted and watches are fed by the test. Nothing runs in the background; handlers and
// events are called and queued within the test's own calls.
package fake

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/clustercache/internal/stream"
)

// Cache is a clustercache.ClusterCache under the control of a test. Make one with New.
type Cache struct {
	hub *stream.Hub[clustercache.ClusterKey, clustercache.EventType]

	mu      sync.Mutex
	targets map[clustercache.ClusterKey]*target
}

var _ clustercache.ClusterCache = &Cache{}

type target struct {
	Target
	status  clustercache.Status
	health  clustercache.HealthCheckingState
	watches map[string]*watch
}

// watch is what the test feeds under a name, for all subscriptions of that name.
type watch struct {
	clustercache.Watcher
	values map[types.NamespacedName]any
	synced bool
	fault  error
	subs   []*subscription
}

type subscription struct {
	cache *Cache
	key   clustercache.ClusterKey
	watch *watch
	clustercache.Watcher
	closed bool
}

// Target is what the getters return for a target. Client is needed; the others as far as the test uses them.
type Target struct {
	Client     client.Client
	Metadata   metadata.Interface
	RESTConfig *rest.Config
	RESTMapper meta.RESTMapper // default: that of Client
}

// New returns a cache with connected targets.
func New(clients map[clustercache.ClusterKey]client.Client) *Cache {
	c := &Cache{
		hub:     stream.NewHub[clustercache.ClusterKey](clustercache.EventGone),
		targets: map[clustercache.ClusterKey]*target{},
	}
	for key, cl := range clients {
		c.Add(key, Target{Client: cl})
	}
	return c
}

// Add registers and connects a target, or gives it other clients.
func (c *Cache) Add(key clustercache.ClusterKey, what Target) {
	if what.RESTMapper == nil && what.Client != nil {
		what.RESTMapper = what.Client.RESTMapper()
	}
	c.mu.Lock()
	if t, exists := c.targets[key]; exists {
		t.Target = what
		c.mu.Unlock()
		return
	}
	c.targets[key] = &target{Target: what, watches: map[string]*watch{}, status: clustercache.Status{
		Cluster: key, State: clustercache.StateConnected, Reason: clustercache.ReasonConnected, Since: time.Now(),
		Connection: 1, UID: types.UID("uid-of-" + key.Name),
	}}
	c.mu.Unlock()
	c.hub.Publish(key, clustercache.EventRegistered, clustercache.EventConnected)
}

// Remove makes nothing be left of a target.
func (c *Cache) Remove(key clustercache.ClusterKey) {
	c.mu.Lock()
	delete(c.targets, key)
	c.mu.Unlock()
	c.hub.Publish(key, clustercache.EventGone)
}

// SetStatus replaces the status of a target, which need not have been added, and emits the event that fits a change of
// its state.
func (c *Cache) SetStatus(status clustercache.Status) {
	c.mu.Lock()
	t, exists := c.targets[status.Cluster]
	if !exists {
		t = &target{watches: map[string]*watch{}}
		c.targets[status.Cluster] = t
	}
	was := serves(t.status.State)
	t.status = status
	c.mu.Unlock()

	events := []clustercache.EventType{clustercache.EventProbed}
	switch is := serves(status.State); {
	case status.State == clustercache.StateDraining:
		events = []clustercache.EventType{clustercache.EventDraining}
	case is && !was:
		events = []clustercache.EventType{clustercache.EventConnected}
	case was && !is:
		events = []clustercache.EventType{clustercache.EventDisconnected}
	}
	if !exists {
		events = append([]clustercache.EventType{clustercache.EventRegistered}, events...)
	}
	c.hub.Publish(status.Cluster, events...)
}

// SetState changes the state and reason of a target and emits the event that fits.
func (c *Cache) SetState(key clustercache.ClusterKey, state clustercache.State, reason, message string) {
	status, _ := c.GetStatus(key)
	status.Cluster, status.State, status.Reason, status.Message, status.Since = key, state, reason, message, time.Now()
	c.SetStatus(status)
}

// SetHealth sets what GetHealthCheckingState returns.
func (c *Cache) SetHealth(key clustercache.ClusterKey, health clustercache.HealthCheckingState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t := c.targets[key]; t != nil {
		t.health = health
	}
}

// Emit emits events.
func (c *Cache) Emit(key clustercache.ClusterKey, events ...clustercache.EventType) {
	c.hub.Publish(key, events...)
}

// Watches returns what is subscribed to in a target, by name.
func (c *Cache) Watches(key clustercache.ClusterKey) map[string]clustercache.Watcher {
	c.mu.Lock()
	defer c.mu.Unlock()
	declared := map[string]clustercache.Watcher{}
	if t := c.targets[key]; t != nil {
		for name, w := range t.watches {
			declared[name] = w.Watcher
		}
	}
	return declared
}

// Put delivers an object through a watch, as it is or through the watch's Transform.
func (c *Cache) Put(key clustercache.ClusterKey, name string, obj client.Object) {
	w := c.mustWatch(key, name)
	var value any = obj
	if w.Transform != nil {
		value = w.Transform(obj)
	}
	c.PutValue(key, name, client.ObjectKeyFromObject(obj), value)
}

// PutValue delivers a transformed value through a watch.
func (c *Cache) PutValue(key clustercache.ClusterKey, name string, object types.NamespacedName, value any) {
	w := c.mustWatch(key, name)
	c.mu.Lock()
	old := w.values[object]
	w.values[object] = value
	c.mu.Unlock()
	c.notify(w, func(h clustercache.WatchHandler) { h.OnUpdate(key, name, object, old, value) })
}

// Delete delivers that an object left a watch's selection.
func (c *Cache) Delete(key clustercache.ClusterKey, name string, object types.NamespacedName) {
	w := c.mustWatch(key, name)
	c.mu.Lock()
	old := w.values[object]
	delete(w.values, object)
	c.mu.Unlock()
	c.notify(w, func(h clustercache.WatchHandler) { h.OnDelete(key, name, object, old) })
}

// Sync makes the initial list of a watch complete, or incomplete.
func (c *Cache) Sync(key clustercache.ClusterKey, name string, synced bool) {
	w := c.mustWatch(key, name)
	c.mu.Lock()
	w.synced, w.fault = synced, nil
	c.mu.Unlock()
	if synced {
		c.notify(w, func(h clustercache.WatchHandler) { h.OnSynced(key, name) })
	}
}

// Fail delivers an error of a watch.
func (c *Cache) Fail(key clustercache.ClusterKey, name string, err error) {
	w := c.mustWatch(key, name)
	c.mu.Lock()
	w.synced, w.fault = false, err
	c.mu.Unlock()
	c.notify(w, func(h clustercache.WatchHandler) { h.OnError(key, name, err) })
}

// notify calls the handlers of a watch, without a lock.
func (c *Cache) notify(w *watch, call func(clustercache.WatchHandler)) {
	c.mu.Lock()
	subs := slices.Clone(w.subs)
	c.mu.Unlock()
	for _, s := range subs {
		if s.Handler != nil && s.Live() {
			call(s.Handler)
		}
	}
}

func (c *Cache) mustWatch(key clustercache.ClusterKey, name string) *watch {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t := c.targets[key]; t != nil && t.watches[name] != nil {
		return t.watches[name]
	}
	panic(fmt.Sprintf("fake: no watch %q in target %s", name, key))
}

func serves(state clustercache.State) bool {
	return state == clustercache.StateConnected || state == clustercache.StateDraining
}

// connected returns what serves a target.
func (c *Cache) connected(key clustercache.ClusterKey) (Target, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.targets[key]
	switch {
	case t == nil:
		return Target{}, fmt.Errorf("target %s: %w", key, clustercache.ErrClusterUnknown)
	case !serves(t.status.State):
		return Target{}, fmt.Errorf("target %s: %w", key, clustercache.ErrClusterNotConnected)
	}
	return t.Target, nil
}

// GetClient implements clustercache.ClusterCache.
func (c *Cache) GetClient(_ context.Context, key clustercache.ClusterKey) (client.Client, error) {
	t, err := c.connected(key)
	return t.Client, err
}

// GetReader implements clustercache.ClusterCache.
func (c *Cache) GetReader(_ context.Context, key clustercache.ClusterKey) (client.Reader, error) {
	t, err := c.connected(key)
	return t.Client, err
}

// GetUncachedClient implements clustercache.ClusterCache.
func (c *Cache) GetUncachedClient(_ context.Context, key clustercache.ClusterKey) (client.Client, error) {
	t, err := c.connected(key)
	return t.Client, err
}

// GetMetadataClient implements clustercache.ClusterCache.
func (c *Cache) GetMetadataClient(_ context.Context, key clustercache.ClusterKey) (metadata.Interface, error) {
	t, err := c.connected(key)
	return t.Metadata, err
}

// GetRESTConfig implements clustercache.ClusterCache.
func (c *Cache) GetRESTConfig(_ context.Context, key clustercache.ClusterKey) (*rest.Config, error) {
	t, err := c.connected(key)
	if err != nil || t.RESTConfig == nil {
		return nil, err
	}
	return rest.CopyConfig(t.RESTConfig), nil
}

// GetRESTMapper implements clustercache.ClusterCache.
func (c *Cache) GetRESTMapper(_ context.Context, key clustercache.ClusterKey) (meta.RESTMapper, error) {
	t, err := c.connected(key)
	return t.RESTMapper, err
}

// Watch implements clustercache.ClusterCache. Subscriptions of the same name share what the test feeds.
func (c *Cache) Watch(
	_ context.Context, key clustercache.ClusterKey, watcher clustercache.Watcher,
) (clustercache.Subscription, error) {
	c.mu.Lock()
	t := c.targets[key]
	if t == nil {
		c.mu.Unlock()
		return nil, fmt.Errorf("target %s: %w", key, clustercache.ErrClusterUnknown)
	}
	w := t.watches[watcher.Name]
	if w == nil {
		w = &watch{Watcher: watcher, values: map[types.NamespacedName]any{}}
		t.watches[watcher.Name] = w
	}
	s := &subscription{cache: c, key: key, watch: w, Watcher: watcher}
	w.subs = append(w.subs, s)
	values, synced, fault := maps.Clone(w.values), w.synced, w.fault
	c.mu.Unlock()
	if h := watcher.Handler; h != nil {
		for object, value := range values {
			h.OnUpdate(key, watcher.Name, object, nil, value)
		}
		switch {
		case synced:
			h.OnSynced(key, watcher.Name)
		case fault != nil:
			h.OnError(key, watcher.Name, fault)
		}
	}
	return s, nil
}

// liveLocked reports whether a subscription shows anything. It is called with the lock.
func (s *subscription) liveLocked() bool {
	t := s.cache.targets[s.key]
	return !s.closed && t != nil && t.watches[s.Name] == s.watch
}

// Live implements clustercache.Subscription.
func (s *subscription) Live() bool {
	s.cache.mu.Lock()
	defer s.cache.mu.Unlock()
	return s.liveLocked()
}

// Lookup implements clustercache.Subscription.
func (s *subscription) Lookup(object types.NamespacedName) (value any, found, synced bool) {
	s.cache.mu.Lock()
	defer s.cache.mu.Unlock()
	if !s.liveLocked() {
		return nil, false, false
	}
	value, found = s.watch.values[object]
	return value, found, s.watch.synced && serves(s.cache.targets[s.key].status.State)
}

// Range implements clustercache.Subscription.
func (s *subscription) Range(f func(key types.NamespacedName, value any) bool) (synced bool) {
	s.cache.mu.Lock()
	defer s.cache.mu.Unlock()
	if !s.liveLocked() {
		return false
	}
	for object, value := range s.watch.values {
		if !f(object, value) {
			break
		}
	}
	return s.watch.synced && serves(s.cache.targets[s.key].status.State)
}

// Close implements clustercache.Subscription.
func (s *subscription) Close() {
	c := s.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.closed {
		return
	}
	live := s.liveLocked()
	s.closed = true
	s.watch.subs = slices.DeleteFunc(s.watch.subs, func(other *subscription) bool { return other == s })
	if live && len(s.watch.subs) == 0 {
		delete(c.targets[s.key].watches, s.Name)
	}
}

// GetHealthCheckingState implements clustercache.ClusterCache.
func (c *Cache) GetHealthCheckingState(_ context.Context,
	key clustercache.ClusterKey) clustercache.HealthCheckingState {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t := c.targets[key]; t != nil {
		return t.health
	}
	return clustercache.HealthCheckingState{}
}

// GetStatus implements clustercache.ClusterCache.
func (c *Cache) GetStatus(key clustercache.ClusterKey) (clustercache.Status, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t := c.targets[key]; t != nil {
		return t.status, true
	}
	return clustercache.Status{}, false
}

// List implements clustercache.ClusterCache.
func (c *Cache) List(namespace string) []clustercache.Status {
	c.mu.Lock()
	defer c.mu.Unlock()
	var states []clustercache.Status
	for _, key := range slices.SortedFunc(maps.Keys(c.targets), func(a, b clustercache.ClusterKey) int {
		return strings.Compare(a.String(), b.String())
	}) {
		if key.Namespace != "" && (namespace == "" || key.Namespace == namespace) {
			states = append(states, c.targets[key].status)
		}
	}
	return states
}

// GetClusterSource implements clustercache.ClusterCache.
func (c *Cache) GetClusterSource(string) clustercache.EventSource {
	return &eventSource{c.hub.Subscribe(func(add func(clustercache.ClusterKey, ...clustercache.EventType)) {
		c.mu.Lock()
		defer c.mu.Unlock()
		for key, t := range c.targets {
			add(key, clustercache.EventRegistered)
			if serves(t.status.State) {
				add(key, clustercache.EventConnected)
			}
		}
	})}
}

type eventSource struct {
	events *stream.Stream[clustercache.ClusterKey, clustercache.EventType]
}

// Next implements clustercache.EventSource.
func (s *eventSource) Next(ctx context.Context) (clustercache.Event, error) {
	key, events, err := s.events.Next(ctx)
	return clustercache.Event{Cluster: key, Types: events}, err
}

// Close implements clustercache.EventSource.
func (s *eventSource) Close() { s.events.Close() }
