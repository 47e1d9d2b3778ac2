package clustercache

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/trellis-hub/trellis/clustercache/internal/answers"
	"github.com/trellis-hub/trellis/clustercache/internal/availability"
	"github.com/trellis-hub/trellis/clustercache/internal/connection"
	"github.com/trellis-hub/trellis/clustercache/internal/follow"
	"github.com/trellis-hub/trellis/clustercache/internal/registration"
	"github.com/trellis-hub/trellis/clustercache/internal/seats"
	"github.com/trellis-hub/trellis/clustercache/internal/stream"
	"github.com/trellis-hub/trellis/clustercache/internal/telemetry"
	"github.com/trellis-hub/trellis/clustercache/internal/watching"
	"github.com/trellis-hub/trellis/clustercache/kubeconfig"
	"github.com/trellis-hub/trellis/clustercache/mapperpool"
)

// How long the second step of connecting, a list, and the lists of a rotation may keep a seat.
const (
	identificationHold = 2 * time.Second
	listHold           = 2 * time.Second
	rotationHold       = 10 * time.Second
)

// Cache is the ClusterCache of real targets. Add it to a manager: it connects while it runs, on every replica.
type Cache struct {
	options      Options
	mappers      *mapperpool.Pool
	availability *availability.Fleet
	answers      *answers.Budget // of the large answers of all targets
	// probes and dials bound calls of the cache itself. Limiters bound the second step of connecting, lists, openings of
	// watches and rotations. firstDials lets targets be dialled for the first time at a rate.
	probes, dials                               connection.Pool
	identifications, lists, openings, rotations *seats.Limiter
	firstDials                                  connection.Pacer

	registry *registration.Registry
	hub      *stream.Hub[ClusterKey, EventType]
	metrics  *telemetry.Fleet
	handling handling

	mu      sync.RWMutex // never held over a call
	ctx     context.Context
	stopped bool // no target may be added any longer
	targets map[ClusterKey]*target
	refused map[string]map[string]*refused // by namespace and name: registrations beyond the quota
	// byNamespace holds the targets of each namespace: a request for those of one must not walk the fleet.
	byNamespace map[string]map[*target]struct{}
	// pools bound what the targets of a namespace keep together, for namespaces that have targets.
	pools map[string]*watching.Pool
	// budget bounds the memory of large documents of watches and lists.
	budget  *follow.Budget
	running sync.WaitGroup
	synced  chan struct{} // closed when every registration that existed at the start is known
}

var (
	_ ClusterCache                   = &Cache{}
	_ manager.Runnable               = &Cache{}
	_ manager.LeaderElectionRunnable = &Cache{}
)

// New returns a cache that does nothing until it is started.
func New(options Options) (*Cache, error) {
	options, err := options.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("clustercache: %w", err)
	}
	c := &Cache{
		options: options,
		mappers: mapperpool.New(mapperpool.Options{Clock: options.Clock}),
		availability: availability.NewFleet(availability.Options{
			Grace: options.Grace.Disconnect, MassPercent: options.Grace.MassPercent, MassWindow: options.Grace.MassWindow,
			MassLimit: options.Grace.MassLimit, Logger: options.Logger,
		}),
		probes:          connection.NewPool(options.Probe.Parallel),
		dials:           connection.NewPool(options.Dial.Parallel),
		identifications: seats.New(options.Dial.ConnectParallel, identificationHold, options.Clock),
		lists:           seats.New(options.Watch.ListParallel, listHold, options.Clock),
		openings:        seats.New(options.Watch.OpenParallel, options.Watch.openHold, options.Clock),
		rotations:       seats.New(options.Dial.RotateParallel, rotationHold, options.Clock),
		firstDials:      connection.NewPacer(options.Dial.ConnectRate, options.Clock),
		answers:         answers.NewBudget(),
		hub:             stream.NewHub[ClusterKey](EventGone),
		metrics:         telemetry.New(options.TargetHistograms),
		targets:         map[ClusterKey]*target{},
		refused:         map[string]map[string]*refused{},
		synced:          make(chan struct{}),

		byNamespace: map[string]map[*target]struct{}{},
		pools:       map[string]*watching.Pool{},
		budget:      follow.NewBudget(),
	}
	policy := kubeconfig.Policy{AllowedProxyURLs: options.Dial.AllowedProxyURLs, Addresses: options.Dial.Addresses}
	c.registry = registration.New(registration.Options{
		Quota: options.MaxRegistrations,
		Read:  func(s *corev1.Secret) *registration.Registration { return options.read(s, policy) },

		Register: c.register, Unregister: c.unregister, Refuse: c.refuse, Unrefuse: c.unrefuse,
		Clock: options.Clock, Logger: options.Logger,
	})
	if options.Registerer != nil {
		if err := c.metrics.Register(options.Registerer, c.measure); err != nil {
			return nil, fmt.Errorf("clustercache: cannot register metrics: %w", err)
		}
	}
	return c, nil
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: a standby keeps its connections warm.
func (c *Cache) NeedLeaderElection() bool { return false }

// Start implements manager.Runnable. It returns when ctx has ended and nothing is left of any target.
func (c *Cache) Start(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	c.mu.Lock()
	if c.ctx != nil {
		c.mu.Unlock()
		cancel()
		return errors.New("clustercache: was started before")
	}
	c.ctx = ctx
	c.mu.Unlock()

	defer func() {
		cancel()
		c.mu.Lock()
		c.stopped = true
		c.mu.Unlock()
		c.running.Wait()
	}()
	for key, config := range c.options.Static {
		c.register(key, &registration.Registration{Access: connection.Access{Static: rest.CopyConfig(config)}})
	}
	if c.options.Secrets != nil {
		informer, err := c.options.Secrets.GetInformer(ctx, &corev1.Secret{})
		if err != nil {
			return fmt.Errorf("clustercache: cannot watch registration Secrets: %w", err)
		}
		if err := c.registry.Run(ctx, informer, func() { close(c.synced) }); err != nil {
			return fmt.Errorf("clustercache: %w", err)
		}
	} else {
		close(c.synced)
	}
	<-ctx.Done()
	return nil
}

// WaitForSync blocks until every registration that existed at the start is known, connected or not; false if ctx ended
// before. Until then, a target that is not known may well be registered.
func (c *Cache) WaitForSync(ctx context.Context) bool {
	select {
	case <-c.synced:
		return true
	case <-ctx.Done():
		return false
	}
}

// register makes a registration known, or an older one outdated.
func (c *Cache) register(key ClusterKey, r *registration.Registration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped {
		return
	}
	c.unrefuseLocked(key)
	if t, exists := c.targets[key]; exists {
		t.send(func(in *inbox) { in.registration, in.removed = r, false })
		return
	}
	if c.byNamespace[key.Namespace] == nil {
		c.byNamespace[key.Namespace] = map[*target]struct{}{}
		if key.Namespace != "" {
			c.pools[key.Namespace] = watching.NewPool(c.options.namespaceBytes(), freeBytes)
		}
	}
	t := newTarget(c.ctx, c, key, r)
	c.targets[key] = t
	c.byNamespace[key.Namespace][t] = struct{}{}
	c.running.Go(t.run)
}

// transitionRefused takes note of a fault of this package: an event that must not happen in a state.
func (c *Cache) transitionRefused(t *target, from State, e stateEvent) {
	c.metrics.RefusedTransitions.Inc()
	t.log.Error(nil, "The state of the target does not allow an event; it stays as it is", "state", from,
		"event", e.String())
	if refused := c.options.transitionRefused; refused != nil {
		refused(from, e)
	}
}

func (c *Cache) unregister(key ClusterKey) {
	if t := c.target(key); t != nil {
		t.send(func(in *inbox) { in.registration, in.removed = nil, true })
	}
}

// forget removes a target, unless it was registered again.
func (c *Cache) forget(t *target) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	t.mu.RLock()
	returned := t.inbox.registration != nil
	t.mu.RUnlock()
	if returned {
		return false
	}
	delete(c.targets, t.key)
	c.metrics.Forget(t.key)
	if delete(c.byNamespace[t.key.Namespace], t); len(c.byNamespace[t.key.Namespace]) == 0 {
		delete(c.byNamespace, t.key.Namespace)
		delete(c.pools, t.key.Namespace)
	}
	if c.refused[t.key.Namespace][t.key.Name] != nil {
		c.hub.Publish(t.key, EventRegistered)
	} else {
		c.hub.Publish(t.key, EventGone)
	}
	return true
}

// Recheck makes a target's identity and limits be looked at again, and a connection attempt at once if one is due.
func (c *Cache) Recheck(cluster ClusterKey) {
	if t := c.target(cluster); t != nil {
		t.send(func(in *inbox) { in.recheck = true })
	}
}

func (c *Cache) target(cluster ClusterKey) *target {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.targets[cluster]
}

// known returns a registered target.
func (c *Cache) known(cluster ClusterKey) (*target, error) {
	if t := c.target(cluster); t != nil {
		return t, nil
	}
	if _, refused := c.refusal(cluster); refused {
		return nil, fmt.Errorf("target %s: %w", cluster, ErrClusterNotConnected)
	}
	return nil, fmt.Errorf("target %s: %w", cluster, ErrClusterUnknown)
}

// connectionTo returns what serves a target.
func (c *Cache) connectionTo(cluster ClusterKey) (*connection.Connection, error) {
	t, err := c.known(cluster)
	if err != nil {
		return nil, err
	}
	if conn := t.current(); conn != nil {
		return conn, nil
	}
	return nil, fmt.Errorf("target %s: %w", cluster, ErrClusterNotConnected)
}

// GetClient implements ClusterCache.
func (c *Cache) GetClient(_ context.Context, cluster ClusterKey) (client.Client, error) {
	conn, err := c.connectionTo(cluster)
	if err != nil {
		return nil, err
	}
	return conn.Client(), nil
}

// GetReader implements ClusterCache.
func (c *Cache) GetReader(_ context.Context, cluster ClusterKey) (client.Reader, error) {
	if _, err := c.connectionTo(cluster); err != nil {
		return nil, err
	}
	t, err := c.known(cluster)
	if err != nil {
		return nil, err
	}
	return t.watches.Reader(c.options.Scheme), nil
}

// GetUncachedClient implements ClusterCache.
func (c *Cache) GetUncachedClient(_ context.Context, cluster ClusterKey) (client.Client, error) {
	conn, err := c.connectionTo(cluster)
	if err != nil {
		return nil, err
	}
	return conn.UncachedClient(), nil
}

// GetMetadataClient implements ClusterCache.
func (c *Cache) GetMetadataClient(_ context.Context, cluster ClusterKey) (metadata.Interface, error) {
	conn, err := c.connectionTo(cluster)
	if err != nil {
		return nil, err
	}
	return conn.MetadataClient(), nil
}

// GetRESTConfig implements ClusterCache.
func (c *Cache) GetRESTConfig(_ context.Context, cluster ClusterKey) (*rest.Config, error) {
	conn, err := c.connectionTo(cluster)
	if err != nil {
		return nil, err
	}
	return conn.Config(), nil
}

// GetRESTMapper implements ClusterCache. The mapper is a meta.ResettableRESTMapper.
func (c *Cache) GetRESTMapper(_ context.Context, cluster ClusterKey) (meta.RESTMapper, error) {
	conn, err := c.connectionTo(cluster)
	if err != nil {
		return nil, err
	}
	return conn.Mapper(), nil
}

// Watch implements ClusterCache.
func (c *Cache) Watch(_ context.Context, cluster ClusterKey, watcher Watcher) (Subscription, error) {
	if watcher.Name == "" || watcher.Kind.Kind == "" || watcher.Kind.Version == "" {
		return nil, fmt.Errorf("target %s: a watch needs a name and a kind with its version", cluster)
	}
	t, err := c.known(cluster)
	if err != nil {
		return nil, err
	}
	s := t.watches.Subscribe(watching.Spec{
		Cluster: t.key, Name: watcher.Name, Kind: watcher.Kind, MetadataOnly: watcher.MetadataOnly,
		Namespace: watcher.Namespace, LabelSelector: watcher.LabelSelector, FieldSelector: watcher.FieldSelector,
		Fields: watcher.Fields, Transform: watcher.Transform, Optional: watcher.Optional, Quota: t.quota,
	}, watcher.Form, watcher.Handler)
	if s == nil {
		return nil, fmt.Errorf("target %s: %w", cluster, ErrClusterUnknown)
	}
	return s, nil
}

// GetHealthCheckingState implements ClusterCache.
func (c *Cache) GetHealthCheckingState(_ context.Context, cluster ClusterKey) HealthCheckingState {
	t := c.target(cluster)
	if t == nil {
		return HealthCheckingState{}
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.health
}

// GetStatus implements ClusterCache.
func (c *Cache) GetStatus(cluster ClusterKey) (Status, bool) {
	if t := c.target(cluster); t != nil {
		return t.snapshot(), true
	}
	return c.refusal(cluster)
}

// List implements ClusterCache. The order is that of the keys.
func (c *Cache) List(namespace string) []Status {
	var found []*target
	c.mu.RLock()
	if namespace != "" {
		found = slices.AppendSeq(found, maps.Keys(c.byNamespace[namespace]))
	} else {
		for key, t := range c.targets {
			if key.Namespace != "" {
				found = append(found, t)
			}
		}
	}
	c.mu.RUnlock()
	states := c.refusals(namespace)
	for _, t := range found {
		states = append(states, t.snapshot())
	}
	slices.SortFunc(states, func(a, b Status) int {
		return strings.Compare(a.Cluster.String(), b.Cluster.String())
	})
	return states
}
