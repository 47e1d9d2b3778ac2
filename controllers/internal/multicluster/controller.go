package multicluster

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
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

// Controller reconciles objects in targets for one term of leadership.
type Controller struct {
	Builder
	reconciler Reconciler
	inner      controller.TypedController[Request]
	ctx        context.Context                               // of the term; set before anything is followed
	queue      workqueue.TypedRateLimitingInterface[Request] // set before the first request
	work       sync.WaitGroup
	handlers   []func() // take handlers off informers of the source

	// following serialises what follows from events of a target. It is taken before mu.
	following sync.Mutex
	mu        sync.Mutex
	targets   map[clustercache.ClusterKey]*engaged
	leaving   map[clustercache.ClusterKey]struct{} // disengaged, with runs under way
	runs      map[*time.Time]struct{}              // when those began that are under way
}

func newController(b Builder, reconciler Reconciler) (*Controller, error) {
	c := &Controller{
		Builder: b, reconciler: reconciler, runs: map[*time.Time]struct{}{},
		targets: map[clustercache.ClusterKey]*engaged{}, leaving: map[clustercache.ClusterKey]struct{}{},
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
				Lane:        func(r Request) string { return r.Cluster.String() },
				Tenant:      func(r Request) string { return r.Cluster.Namespace },
				MaxInFlight: func(string) int { return b.perTarget },
				RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[Request](retryFirst, retryLast),
			})
		},
	})
	if err != nil {
		return nil, fmt.Errorf("controller %s: %w", b.name, err)
	}
	if err := inner.Watch(source.TypedFunc[Request](c.watch)); err != nil {
		return nil, fmt.Errorf("controller %s: %w", b.name, err)
	}
	c.inner = inner
	return c, nil
}

// Start works until ctx ends, and returns when nothing is left of the controller. It can be called once.
func (c *Controller) Start(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer c.close()
	defer cancel()
	if err := c.inner.Start(ctx); err != nil {
		return fmt.Errorf("controller %s: %w", c.name, err)
	}
	return nil
}

// OldestRun returns when the run began that has been under way for the longest time; zero if there is none. One that is
// older than the timeout is stuck.
func (c *Controller) OldestRun() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	var oldest time.Time
	for began := range c.runs {
		if oldest.IsZero() || began.Before(oldest) {
			oldest = *began
		}
	}
	return oldest
}

// watch begins to follow targets and the source.
func (c *Controller) watch(ctx context.Context, queue workqueue.TypedRateLimitingInterface[Request]) error {
	c.ctx, c.queue = ctx, queue
	for _, w := range c.source {
		if err := c.watchSource(ctx, w); err != nil {
			return err
		}
	}
	events := c.environment.Clusters.GetClusterSource(c.name)
	c.work.Go(func() {
		defer events.Close()
		for {
			event, err := events.Next(ctx)
			if err != nil {
				if ctx.Err() == nil {
					c.environment.Logger.Error(err, "Events of targets end", "controller", c.name)
				}
				return
			}
			c.follow(ctx, event.Cluster)
		}
	})
	return nil
}

// close ends what the controller has begun. Its workers have ended.
func (c *Controller) close() {
	for _, remove := range c.handlers {
		remove()
	}
	c.work.Wait()
	c.mu.Lock()
	keys := make([]clustercache.ClusterKey, 0, len(c.targets))
	for key := range c.targets {
		keys = append(keys, key)
	}
	c.mu.Unlock()
	for _, key := range keys {
		c.disengage(key)
	}
	c.work.Wait()
}

// reconcile works on a request, parks it or drops it.
func (c *Controller) reconcile(ctx context.Context, request Request) (reconcile.Result, error) {
	e := c.enter(request)
	if e == nil {
		return reconcile.Result{}, nil
	}
	defer e.runs.Done()
	target, err := c.target(ctx, e, request)
	if err == nil {
		began := c.environment.Clock.Now()
		done := c.begin(&began)
		var result reconcile.Result
		result, err = c.run(ctx, e, target, request.NamespacedName)
		done()
		c.environment.Metrics.observe(c.name, c.environment.Clock.Since(began), err)
		if err == nil {
			return c.again(request, result), nil
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
		Status: status, Client: &fenced{Client: client, valid: valid}, subscriptions: e.subscriptions, valid: valid,
		events: c.environment.Events, Log: logr.FromContextOrDiscard(ctx),
	}, nil
}

// again is the result of a run that succeeded: the timer goes on.
func (c *Controller) again(request Request, result reconcile.Result) reconcile.Result {
	if request.NamespacedName == wholeTarget && c.every > 0 {
		if result.RequeueAfter == 0 || result.RequeueAfter > c.every {
			result.RequeueAfter = c.every
		}
	}
	return result
}

// failed says what becomes of a request whose run failed.
func (c *Controller) failed(ctx context.Context, e *engaged, request Request, err error) (reconcile.Result, error) {
	switch {
	case e.ctx.Err() != nil, ctx.Err() != nil, errors.Is(err, clustercache.ErrClusterUnknown):
		return reconcile.Result{}, nil //nolint:nilerr // there is nobody to try it for
	case errors.Is(err, clustercache.ErrClusterNotConnected):
		if c.park(e, request) {
			return reconcile.Result{}, nil
		}
		return reconcile.Result{RequeueAfter: replacedRetry}, nil
	case errors.Is(err, clustercache.ErrConnectionReplaced), apierrors.IsConflict(err):
		return reconcile.Result{RequeueAfter: replacedRetry}, nil
	}
	return reconcile.Result{}, err
}

// begin notes a run for OldestRun until the returned function is called.
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
