package multicluster

import (
	"context"
	"hash/fnv"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/metrics"
)

// engaged is a target that the controller works in.
type engaged struct {
	uid           types.UID
	every         time.Duration   // zero: there is no timer
	workers       int             // that may work for it at a time
	pace          *rate.Limiter   // nil: runs are not paced
	watched       []bool          // which of the controller's objects are
	ctx           context.Context // ends when the target is disengaged
	cancel        context.CancelFunc
	runs          sync.WaitGroup                         // added to under the controller's mu, as long as it is engaged
	subscriptions map[*Objects]clustercache.Subscription // all when it is connected; the controller's mu guards it before
	changes       map[*Objects]*atomic.Int64             // from which requests followed

	// The controller's mu guards these.
	faults    map[*Objects]error // of watches
	connected bool
	rewinds   int64
	parked    map[Request]struct{}
}

// follow brings the controller in line with the state of a target.
func (c *Controller) follow(ctx context.Context, key clustercache.ClusterKey) {
	c.following.Lock()
	defer c.following.Unlock()
	status, registered := c.environment.Clusters.GetStatus(key)
	wanted := registered && status.State != clustercache.StateDraining && c.enabled(status)
	connected := status.State == clustercache.StateConnected

	c.mu.Lock()
	e := c.targets[key]
	_, leaving := c.leaving[key]
	c.mu.Unlock()
	if e != nil && (!wanted || connected && status.UID != e.uid || !e.live() ||
		c.period(status) != e.every || c.workersFor(status) != e.workers ||
		!slices.Equal(c.watchedIn(status), e.watched)) {
		c.disengage(key)
		e, leaving = nil, true // and when it has left, this is called again
	}
	switch {
	case e == nil && (!wanted || !connected || leaving || ctx.Err() != nil):
		c.stopWaiting(key)
	case e == nil && !c.acquire(status):
		// It is followed again when the other one has left.
	case e == nil:
		c.engage(ctx, status)
	default:
		c.connected(e, connected)
		if c.rewound(e, status.Rewinds) {
			c.reconcileAll(ctx, key, e)
		}
	}
}

// acquire has a target hold its cluster, and reports whether it does. If another registration of the cluster holds it,
// the target waits until that has left.
func (c *Controller) acquire(status clustercache.Status) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.duplicates || status.UID == "" {
		return true
	}
	if holder, held := c.holders[status.UID]; held && holder != status.Cluster {
		c.waiting[status.Cluster] = struct{}{}
		return false
	}
	c.holders[status.UID] = status.Cluster
	delete(c.waiting, status.Cluster)
	return true
}

// stopWaiting notes that a target does not wait for another registration of its cluster.
func (c *Controller) stopWaiting(key clustercache.ClusterKey) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.waiting, key)
}

// workersFor is how many requests of a target may be worked on at a time.
func (c *Controller) workersFor(status clustercache.Status) int { return max(c.perTarget(status), 1) }

// watchedIn returns, for each of the controller's objects, whether they are watched in a target.
func (c *Controller) watchedIn(status clustercache.Status) []bool {
	watched := make([]bool, len(c.objects))
	for i, w := range c.objects {
		watched[i] = w.objects.When == nil || w.objects.When(status)
	}
	return watched
}

// live reports whether what the target was subscribed to continues. It does not if the target was registered again.
func (e *engaged) live() bool {
	for _, s := range e.subscriptions {
		if !s.Live() {
			return false
		}
	}
	return true
}

// engage begins to work in a target. Requests that come before everything is subscribed to are parked until then.
func (c *Controller) engage(ctx context.Context, status clustercache.Status) {
	key := status.Cluster
	e := &engaged{
		uid: status.UID, every: c.period(status), workers: c.workersFor(status), rewinds: status.Rewinds,
		watched:       c.watchedIn(status),
		parked:        map[Request]struct{}{},
		faults:        map[*Objects]error{},
		subscriptions: make(map[*Objects]clustercache.Subscription, len(c.objects)),
		changes:       make(map[*Objects]*atomic.Int64, len(c.objects)),
	}
	for _, w := range c.objects {
		e.changes[w.objects] = &atomic.Int64{}
	}
	if c.perSecond > 0 {
		e.pace = rate.NewLimiter(c.perSecond, c.burst)
	}
	e.ctx, e.cancel = context.WithCancel(ctx)
	c.limits.Store(key.String(), e.workers)
	if f, is := c.reconciler.(Engager); is {
		f.Engage(status)
	}
	c.mu.Lock()
	c.targets[key] = e
	c.environment.Metrics.targets(c.name, len(c.targets))
	c.mu.Unlock()
	log := c.environment.Logger.WithValues("controller", c.name, "target", metrics.TargetName(key))
	for i, w := range c.objects {
		if !e.watched[i] {
			continue
		}
		s, err := c.environment.Clusters.Watch(ctx, key, w.watcher(c, e))
		if err != nil { // its registration has just gone
			log.V(1).Info("Cannot watch in the target", "error", err.Error())
			c.disengage(key)
			return
		}
		c.mu.Lock()
		e.subscriptions[w.objects] = s
		c.mu.Unlock()
	}
	log.V(1).Info("Target is engaged")
	c.connected(e, true)
	c.reconcileSource(ctx, key)
	if e.every > 0 {
		c.queue.AddAfter(Request{Cluster: key}, phase(key, e.every, c.environment.Clock.Now()))
	}
}

// disengage ends the work in a target. Runs that are under way are cancelled; when they have ended, the reconciler
// forgets the target, and it may be engaged again.
func (c *Controller) disengage(key clustercache.ClusterKey) {
	c.mu.Lock()
	e := c.targets[key]
	delete(c.targets, key)
	c.leaving[key] = struct{}{}
	c.environment.Metrics.targets(c.name, len(c.targets))
	c.mu.Unlock()
	c.limits.Delete(key.String())
	e.cancel()
	for _, s := range e.subscriptions {
		s.Close()
	}
	c.work.Go(func() {
		e.runs.Wait()
		if f, remembers := c.reconciler.(Forgetter); remembers {
			f.Forget(key)
		}
		c.mu.Lock()
		delete(c.leaving, key)
		if c.holders[e.uid] == key {
			delete(c.holders, e.uid)
		}
		next := append(slices.Collect(maps.Keys(c.waiting)), key)
		c.mu.Unlock()
		for _, key := range next {
			c.follow(c.ctx, key)
		}
	})
}

// enter returns the target of a request that may be worked on now, and counts the run; the caller calls runs.Done when
// it has ended. It returns nil for a request that is dropped or parked.
func (c *Controller) enter(request Request) *engaged {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.targets[request.Cluster]
	if e == nil {
		return nil
	}
	if !e.connected {
		e.parked[request] = struct{}{}
		return nil
	}
	e.runs.Add(1)
	return e
}

// park keeps a request until the target is connected again. It returns false if the controller does not know that it is
// not.
func (c *Controller) park(e *engaged, request Request) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !e.connected {
		e.parked[request] = struct{}{}
	}
	return !e.connected
}

// connected notes whether a target is connected, and brings its requests back if it is.
func (c *Controller) connected(e *engaged, connected bool) {
	c.mu.Lock()
	e.connected = connected
	var parked map[Request]struct{}
	if connected {
		parked, e.parked = e.parked, map[Request]struct{}{}
	}
	c.mu.Unlock()
	for request := range parked {
		c.queue.Add(request)
	}
}

func (c *Controller) rewound(e *engaged, rewinds int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := e.rewinds
	e.rewinds = rewinds
	return before != rewinds
}

// reconcileAll has everything reconciled that the watches of a target show.
func (c *Controller) reconcileAll(ctx context.Context, key clustercache.ClusterKey, e *engaged) {
	for _, w := range c.objects {
		subscription := e.subscriptions[w.objects]
		if subscription == nil {
			continue // not in this target
		}
		var requests []Request
		subscription.Range(func(name types.NamespacedName, value any) bool {
			requests = append(requests, w.requests(key, name, nil, value)...)
			return true
		})
		for _, request := range requests {
			c.queue.Add(request)
		}
	}
	c.reconcileSource(ctx, key)
	if e.every > 0 {
		c.queue.Add(Request{Cluster: key})
	}
}

// period is that of a target's timer; zero if it has none.
func (c *Controller) period(status clustercache.Status) time.Duration {
	if c.every == nil {
		return 0
	}
	return max(0, c.every(status))
}

// phase is the time until a target's next periodic run. All are a period apart, and when they are follows from the
// target's name.
func phase(key clustercache.ClusterKey, period time.Duration, now time.Time) time.Duration {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(key.String()))
	offset := time.Duration(hash.Sum64() % uint64(period))
	passed := time.Duration(now.UnixNano()) % period
	return (offset - passed + period) % period
}

// watcher is what the cluster cache is asked for.
func (w watch) watcher(c *Controller, e *engaged) clustercache.Watcher {
	o := w.objects
	return clustercache.Watcher{
		Name: c.name + " " + o.Kind.Kind, Kind: o.Kind, MetadataOnly: o.MetadataOnly, Namespace: o.Namespace,
		LabelSelector: o.LabelSelector, FieldSelector: o.FieldSelector,
		Fields: o.Fields, Transform: o.Transform, Form: o.Form, Optional: o.Optional,
		Handler: &handler{controller: c, target: e, watch: w},
	}
}

func (w watch) requests(key clustercache.ClusterKey, name types.NamespacedName, old, value any) []Request {
	if w.to == nil {
		return nil
	}
	var requests []Request
	for _, name := range w.to(name, old, value) {
		requests = append(requests, Request{Cluster: key, NamespacedName: name})
	}
	return requests
}

// handler turns the events of a watch into requests.
type handler struct {
	controller *Controller
	target     *engaged
	watch      watch
}

func (h *handler) add(key clustercache.ClusterKey, name types.NamespacedName, old, value any) {
	requests := h.watch.requests(key, name, old, value)
	if len(requests) > 0 {
		h.target.changes[h.watch.objects].Add(1)
	}
	for _, request := range requests {
		h.controller.queue.Add(request)
	}
}

// OnUpdate implements clustercache.WatchHandler.
func (h *handler) OnUpdate(key clustercache.ClusterKey, _ string, name types.NamespacedName, old, value any) {
	h.add(key, name, old, value)
}

// OnDelete implements clustercache.WatchHandler.
func (h *handler) OnDelete(key clustercache.ClusterKey, _ string, name types.NamespacedName, old any) {
	h.add(key, name, old, nil)
}

// OnSynced implements clustercache.WatchHandler. Everything that a watch shows has come as an update.
func (h *handler) OnSynced(key clustercache.ClusterKey, _ string) {
	h.note(key, nil)
}

// OnError implements clustercache.WatchHandler. A run finds out that nothing can be relied upon.
func (h *handler) OnError(key clustercache.ClusterKey, watch string, err error) {
	h.controller.environment.Logger.V(1).Info("Cannot watch in the target",
		"controller", h.controller.name, "target", metrics.TargetName(key), "watch", watch, "error", err.Error())
	h.note(key, err)
}

// note remembers what is wrong with the watch, if anything is. A watch of a kind that the target does not have fails
// in the same way every few seconds.
func (h *handler) note(key clustercache.ClusterKey, fault error) {
	h.controller.mu.Lock()
	before := h.target.faults[h.watch.objects]
	h.target.faults[h.watch.objects] = fault
	h.controller.mu.Unlock()
	again := fault != nil && before != nil && fault.Error() == before.Error()
	if h.controller.onSync && !again {
		h.controller.queue.Add(Request{Cluster: key})
	}
}

// reconcileFor has reconciled what follows from an object of the source, unless that is nil, in the targets of its
// namespace.
func (c *Controller) reconcileFor(obj client.Object, to SourceMapFunc) {
	if obj == nil {
		return
	}
	c.mu.Lock()
	var keys []clustercache.ClusterKey
	for key := range c.targets {
		if key.Namespace == obj.GetNamespace() {
			keys = append(keys, key)
		}
	}
	c.mu.Unlock()
	if len(keys) == 0 {
		return
	}
	for _, name := range to(obj) {
		for _, key := range keys {
			c.queue.Add(Request{Cluster: key, NamespacedName: name})
		}
	}
}

// reconcileSource has reconciled in a target what follows from all objects of its namespace of the source.
func (c *Controller) reconcileSource(ctx context.Context, key clustercache.ClusterKey) {
	for _, w := range c.source {
		objects, err := w.InNamespace(ctx, key.Namespace)
		if err != nil && ctx.Err() == nil {
			c.environment.Logger.Error(err, "Cannot list objects of the source",
				"controller", c.name, "target", metrics.TargetName(key))
		}
		for _, obj := range objects {
			for _, name := range w.to(obj) {
				c.queue.Add(Request{Cluster: key, NamespacedName: name})
			}
		}
	}
}
