package multicluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/fairqueue"
	"github.com/trellis-hub/trellis/metrics"
)

// retryFirst and retryLast are the shortest and the longest pause after a run that failed.
const retryFirst, retryLast = 200 * time.Millisecond, 5 * time.Minute

// replacedRetry is the pause before a run is repeated whose connection was replaced, or that wrote on top of what had
// changed.
const replacedRetry = 50 * time.Millisecond

// overrun is how long a run may take to end after its deadline.
const overrun = time.Minute

// Controller reconciles objects in targets for one term of leadership.
type Controller struct {
	Builder
	reconciler Reconciler
	inner      controller.TypedController[Request]
	ctx        context.Context                               // of the term; set before anything is followed
	queue      workqueue.TypedRateLimitingInterface[Request] // set when ready is closed
	ready      chan struct{}
	work       sync.WaitGroup // what is to end before Start returns

	// following serialises what follows from events of a target. It is taken before mu.
	following sync.Mutex
	mu        sync.Mutex
	targets   map[clustercache.ClusterKey]*engaged
	leaving   map[clustercache.ClusterKey]struct{}  // disengaged, with runs under way
	holders   map[types.UID]clustercache.ClusterKey // engaged or leaving, by the UID of the cluster
	waiting   map[clustercache.ClusterKey]struct{}  // to be engaged when another registration of the cluster has left
	runs      map[*time.Time]struct{}               // when those began that are under way
	limits    sync.Map                              // int, how many may be for an engaged target, by its name
}

func newController(b Builder, reconciler Reconciler) (*Controller, error) {
	c := &Controller{
		Builder: b, reconciler: reconciler, ready: make(chan struct{}), runs: map[*time.Time]struct{}{},
		targets: map[clustercache.ClusterKey]*engaged{}, leaving: map[clustercache.ClusterKey]struct{}{},
		holders: map[types.UID]clustercache.ClusterKey{}, waiting: map[clustercache.ClusterKey]struct{}{},
	}
	log := b.environment.Logger
	inner, err := controller.NewTypedUnmanaged(b.name, controller.TypedOptions[Request]{
		SkipNameValidation:      ptr.To(true), // each term has a controller of this name
		MaxConcurrentReconciles: b.workers,
		Reconciler:              reconcile.TypedFunc[Request](c.reconcile),
		LogConstructor: func(r *Request) logr.Logger {
			if r == nil {
				return log
			}
			return log.WithValues("target", metrics.TargetName(r.Cluster), "object", r.NamespacedName.String())
		},
		NewQueue: func(name string, _ workqueue.TypedRateLimiter[Request]) workqueue.TypedRateLimitingInterface[Request] {
			return fairqueue.New(name, fairqueue.Options[Request]{
				Flow:        func(r Request) string { return r.Cluster.String() },
				Tenant:      func(r Request) string { return r.Cluster.Namespace },
				MaxInFlight: c.inFlight,
				Workers:     b.workers,
				RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[Request](retryFirst, retryLast),
			})
		},
	})
	if err != nil {
		return nil, fmt.Errorf("controller %s: %w", b.name, err)
	}
	if err := inner.Watch(source.TypedFunc[Request](c.take)); err != nil {
		return nil, fmt.Errorf("controller %s: %w", b.name, err)
	}
	c.inner = inner
	return c, nil
}

// inFlight is how many requests may be worked on for a target. The queue asks while it is locked.
func (c *Controller) inFlight(target string) int {
	limit, _ := c.limits.Load(target)
	if workers, engaged := limit.(int); engaged {
		return workers
	}
	return 1 // nothing is done
}

// Start works until ctx ends, and returns when nothing is left of the controller. It can be called once.
func (c *Controller) Start(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	c.ctx = ctx
	group.Go(func() error { return c.inner.Start(ctx) })
	group.Go(func() error { return c.watch(ctx) })
	err := group.Wait()
	c.close()
	if err != nil {
		return fmt.Errorf("controller %s: %w", c.name, err)
	}
	return nil
}

// take takes the queue, which the inner controller makes when it starts.
func (c *Controller) take(_ context.Context, queue workqueue.TypedRateLimitingInterface[Request]) error {
	c.queue = queue
	close(c.ready)
	return nil
}

// watch follows the source and the targets until ctx ends.
func (c *Controller) watch(ctx context.Context) error {
	select {
	case <-c.ready:
	case <-ctx.Done():
		return nil
	}
	for _, w := range c.source {
		err := w.Follow(ctx, &c.work, func(before, after client.Object) {
			c.reconcileFor(before, w.to)
			c.reconcileFor(after, w.to)
		})
		if err != nil {
			if ctx.Err() != nil {
				return nil // the end of the term is no error
			}
			return err //nolint:wrapcheck // it says what was watched
		}
	}
	if c.settings != nil {
		changed := func(key clustercache.ClusterKey) { c.follow(ctx, key) }
		if err := c.settings(ctx, &c.work, changed); err != nil {
			if ctx.Err() != nil {
				return nil // the end of the term is no error
			}
			return err //nolint:wrapcheck // it says what was followed
		}
	}
	events := c.environment.Clusters.GetClusterSource(c.name)
	defer events.Close()
	for {
		event, err := events.Next(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return fmt.Errorf("following the events of targets: %w", err)
		}
		c.follow(ctx, event.Cluster)
	}
}

// close disengages all targets. Nothing is followed and no worker is at work any longer.
func (c *Controller) close() {
	c.work.Wait()
	c.mu.Lock()
	keys := slices.Collect(maps.Keys(c.targets))
	c.mu.Unlock()
	for _, key := range keys {
		c.disengage(key)
	}
	c.work.Wait()
	c.environment.Metrics.end(c.name)
}

// StuckSince returns since when the controller has not been able to begin anything, because all its workers are
// occupied by runs that continue after their deadline; zero if that is not so. How long targets take does not count.
func (c *Controller) StuckSince(time.Time) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.runs) < c.workers {
		return time.Time{}
	}
	var last time.Time
	for began := range c.runs {
		if began.After(last) {
			last = *began
		}
	}
	return last.Add(c.timeout + overrun)
}

// Objects returns what is watched of some objects in a target, for a caller that shares them with the reconciler, and
// why they cannot be watched at present, if that is so. The subscription is nil while the controller does not work in
// the target.
func (c *Controller) Objects(cluster clustercache.ClusterKey, objects *Objects) (clustercache.Subscription, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.targets[cluster]
	if e == nil {
		return nil, nil
	}
	return e.subscriptions[objects], e.faults[objects]
}

// Enqueue has objects reconciled in a target for a reason that no watch shows. It does nothing while the controller
// does not work in the target: it reconciles everything when it begins to.
func (c *Controller) Enqueue(cluster clustercache.ClusterKey, names ...types.NamespacedName) {
	c.mu.Lock()
	_, engaged := c.targets[cluster]
	c.mu.Unlock()
	if !engaged {
		return
	}
	for _, name := range names {
		c.queue.Add(Request{Cluster: cluster, NamespacedName: name})
	}
}

// reconcile works on a request, parks it or drops it.
func (c *Controller) reconcile(ctx context.Context, request Request) (reconcile.Result, error) {
	e := c.enter(request)
	if e == nil {
		return reconcile.Result{}, nil
	}
	defer e.runs.Done()
	began := c.environment.Clock.Now()
	defer c.begin(&began)()
	target, err := c.target(ctx, e, request)
	if err == nil {
		var result reconcile.Result
		result, err = c.run(ctx, e, target, request.NamespacedName)
		c.environment.Metrics.observe(c.name, c.environment.Clock.Since(began), err)
		if err == nil {
			return e.again(request, result), nil
		}
	}
	return c.failed(ctx, e, request, err)
}

// run has the reconciler work on an object, until the deadline or until the target is disengaged.
func (c *Controller) run(
	ctx context.Context, e *engaged, target *Target, name types.NamespacedName,
) (reconcile.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	defer context.AfterFunc(e.ctx, cancel)() //nolint:contextcheck // the run ends with either
	if e.pace != nil {
		if err := e.pace.Wait(ctx); err != nil {
			return reconcile.Result{}, fmt.Errorf("waiting for other runs of target %s: %w", target.Key(), err)
		}
	}
	return c.reconciler.Reconcile(ctx, target, name)
}

// target returns what a run may use of its target.
func (c *Controller) target(ctx context.Context, e *engaged, request Request) (*Target, error) {
	clusters := c.environment.Clusters
	status, registered := clusters.GetStatus(request.Cluster)
	if !registered {
		return nil, clustercache.ErrClusterUnknown
	}
	client, err := clusters.GetUncachedClient(ctx, request.Cluster)
	if err != nil {
		return nil, err //nolint:wrapcheck // it names the target
	}
	valid := validity(clusters, status)
	if err := valid(); err != nil { // the client may be that of another connection
		return nil, err
	}
	return &Target{
		Status: status, Client: &fenced{Client: client, valid: valid}, valid: valid,
		subscriptions: e.subscriptions, changes: e.changes,
		events: c.environment.Events, Log: logr.FromContextOrDiscard(ctx),
	}, nil
}

// again is the result of a run that succeeded: the timer continues.
func (e *engaged) again(request Request, result reconcile.Result) reconcile.Result {
	if request.NamespacedName == wholeTarget && e.every > 0 {
		if result.RequeueAfter == 0 || result.RequeueAfter > e.every {
			result.RequeueAfter = e.every
		}
	}
	return result
}

// failed says what becomes of a request whose run failed.
func (c *Controller) failed(ctx context.Context, e *engaged, request Request, err error) (reconcile.Result, error) {
	switch {
	case e.ctx.Err() != nil, ctx.Err() != nil, errors.Is(err, clustercache.ErrClusterUnknown):
		return reconcile.Result{}, nil //nolint:nilerr // the target is not engaged any longer
	case errors.Is(err, clustercache.ErrClusterNotConnected):
		if c.park(e, request) {
			return reconcile.Result{}, nil
		}
		return reconcile.Result{RequeueAfter: replacedRetry}, nil
	case errors.Is(err, clustercache.ErrConnectionReplaced):
		return reconcile.Result{RequeueAfter: replacedRetry}, nil
	}
	return reconcile.Result{}, err
}

// begin notes a run for StuckSince until the returned function is called.
func (c *Controller) begin(began *time.Time) (done func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.runs[began] = struct{}{}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.runs, began)
	}
}
