package managedresource

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/controllers/internal/targetfacts"
	"github.com/trellis-hub/trellis/controllers/managedresource/dispatch"
	"github.com/trellis-hub/trellis/controllers/managedresource/observe/notes"
	"github.com/trellis-hub/trellis/controllers/managedresource/observe/tracker"
	"github.com/trellis-hub/trellis/controllers/managedresource/source/assignment"
	"github.com/trellis-hub/trellis/controllers/managedresource/source/barrier"
	"github.com/trellis-hub/trellis/controllers/managedresource/source/secretindex"
	"github.com/trellis-hub/trellis/controllers/managedresource/source/sharing"
	"github.com/trellis-hub/trellis/controllers/managedresource/source/store"
	"github.com/trellis-hub/trellis/engine/bundle"
	"github.com/trellis-hub/trellis/fairqueue"
	"github.com/trellis-hub/trellis/metrics"
)

// ClassOptions is a class with the size of its pool.
type ClassOptions struct {
	*assignment.Class
	// ConcurrentSyncs is the number of ManagedResources that are worked on at the same time, without those that wait for
	// their targets; default 5.
	ConcurrentSyncs int
}

// share is how many runs of a class may be under way for one target: a few where there are many targets, all where
// there is one.
func (c ClassOptions) share(concurrentSyncs int) int {
	if c.FixedTarget() != (clustercache.ClusterKey{}) {
		return concurrentSyncs
	}
	return max(1, min(4, concurrentSyncs))
}

// workersForSeat is how many runs may be under way for each one that may compute. All but those wait for their targets,
// and cost a goroutine of some KiB.
const workersForSeat = 50

// workers is how many runs of a class may be under way, and seats how many of them may compute at the same time. A
// class with one target has no other target to protect from it: zero seats.
func (c ClassOptions) workers(concurrentSyncs int) (workers, seats int) {
	if c.FixedTarget() != (clustercache.ClusterKey{}) {
		return concurrentSyncs, 0
	}
	return workersForSeat * concurrentSyncs, concurrentSyncs
}

// Options of a Controller. All fields without a default are required.
type Options struct {
	// Cache holds the informers of the source: ManagedResources, TargetClusters, Leases and Namespaces.
	Cache ctrlcache.Cache
	// Client writes to the source. It must not read from Cache.
	Client   client.Client
	Clusters clustercache.ClusterCache
	Secrets  *secretindex.Index
	Bundles  *bundle.Cache
	Classes  []ClassOptions
	Events   events.EventRecorder
	Metrics  *Metrics
	Logger   logr.Logger
	// Clock defaults to the real one.
	Clock clock.Clock
	// ManagedBy is the value of the managed-by label; default "gardener".
	ManagedBy string
	// SyncPeriod is the safety net's period; default 10 minutes.
	SyncPeriod time.Duration
	// AlwaysUpdate has all objects of a ManagedResource applied once in each SyncPeriod, whether or not they differ.
	AlwaysUpdate bool
	// ParallelObjects bounds the objects of one ManagedResource that are applied at the same time; default 16.
	ParallelObjects int
	// RunTimeout bounds the work on one ManagedResource; default 10 minutes. Calls to the target end after four
	// fifths of it.
	RunTimeout time.Duration
	// KeepGarbageCollectable reports whether ConfigMaps and Secrets with the garbage collector's label are left to it in a
	// target. It answers from memory. Nil: they never are.
	KeepGarbageCollectable func(target clustercache.ClusterKey) bool
	// QueueMetrics takes the figures of the queues, those of all terms; nil for none.
	QueueMetrics *fairqueue.Metrics
	// Facts receives what only this controller knows of targets, for other controllers; nil if none needs it.
	Facts *targetfacts.Term
}

// Controller keeps ManagedResources for one term of leadership. It is used once.
type Controller struct {
	options    Options
	assigner   *assignment.Assigner
	tracker    *tracker.Tracker
	shared     *sharing.Index
	warnings   *notes.Reader
	dispatcher *dispatch.Dispatcher
	reconciler *reconciler
	supervisor *supervisor
	began      atomic.Pointer[time.Time]
}

// New returns a controller that is not started.
func New(o Options) (*Controller, error) {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.ManagedBy == "" {
		o.ManagedBy = resourcesv1alpha1.ManagedByDefault
	}
	if o.SyncPeriod <= 0 {
		o.SyncPeriod = 10 * time.Minute
	}
	if o.RunTimeout <= 0 {
		o.RunTimeout = 10 * time.Minute
	}
	if o.ParallelObjects <= 0 {
		o.ParallelObjects = 16
	}
	selector, err := labels.ValidatedSelectorFromSet(labels.Set{resourcesv1alpha1.ManagedByLabel: o.ManagedBy})
	if err != nil {
		return nil, fmt.Errorf("the value of label %s: %w", resourcesv1alpha1.ManagedByLabel, err)
	}
	assigner := &assignment.Assigner{Classes: map[string]*assignment.Class{}, Clusters: o.Clusters, Reader: o.Cache,
		Clock: o.Clock}
	for _, class := range o.Classes {
		assigner.Classes[class.Name] = class.Class
	}
	c := &Controller{options: o, assigner: assigner, shared: sharing.NewIndex()}
	assigner.Began = c.Began
	c.tracker = tracker.New(tracker.Options{
		Clusters: o.Clusters, FieldManager: hubv1alpha1.FieldManager, Selector: selector, Notify: c.notify, Clock: o.Clock,
	})
	source := store.New(o.Cache, o.Client, c.observe)
	c.dispatcher = dispatch.New(dispatch.Options{
		Cache: o.Cache, Clusters: o.Clusters, Assigner: assigner, Tracker: c.tracker, Shared: c.shared, Ahead: source.Ahead,
		Shown: source.Shown, Clock: o.Clock, Logger: o.Logger,
		TakePending: func(mr types.NamespacedName) bool { return c.reconciler.interrupted.take(mr) },
	})
	c.warnings = notes.New(notes.Options{
		Client: o.Clusters.GetUncachedClient, Clock: o.Clock, Logger: o.Logger,
		Notify: func(mr types.NamespacedName) { c.notify(mr, tracker.CauseHealth) },
	})
	c.reconciler = newReconciler(o, c, source)
	c.supervisor = newSupervisor(c.reconciler.Reconcile, o.Clock, o.Logger)
	o.Facts.Publish(c)
	return c, nil
}

// observe takes note of a ManagedResource as it was written.
func (c *Controller) observe(mr *resourcesv1alpha1.ManagedResource) {
	c.dispatcher.ObserveWrite(context.Background(), mr)
}

// notify puts a ManagedResource about which the tracker reports something into its queue.
func (c *Controller) notify(mr types.NamespacedName, cause tracker.Cause) {
	priority := dispatch.PriorityRetry
	if cause == tracker.CauseDrift {
		priority = dispatch.PriorityDrift
		c.reconciler.drifts.start(mr, c.options.Clock.Now())
	}
	c.dispatcher.EnqueueName(context.Background(), mr, priority)
}

// Start works until ctx ends, and returns when every goroutine and every watch it started is gone.
func (c *Controller) Start(ctx context.Context) error {
	if !c.options.Cache.WaitForCacheSync(ctx) || !c.options.Secrets.WaitForSync(ctx) {
		return nil
	}
	if !c.caughtUp(ctx) {
		return nil
	}
	// Before the first run, not by events that come beside it, and with what the last leader wrote: what is not known to
	// be listed may be deleted.
	c.dispatcher.Each(ctx, func(mr *resourcesv1alpha1.ManagedResource) { c.shared.Observe(mr) })
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	run := func(what string, f func(context.Context) error) {
		wg.Go(func() {
			if err := f(ctx); err != nil && ctx.Err() == nil {
				cancel(fmt.Errorf("%s: %w", what, err))
			}
		})
	}
	ready := make(chan struct{}, len(c.options.Classes))
	for _, class := range c.options.Classes {
		ctrl, err := c.classController(class, ready)
		if err != nil {
			cancel(err)
			break
		}
		run(fmt.Sprintf("class %q", class.Name), ctrl.Start)
	}
	for range c.options.Classes {
		select {
		case <-ready:
		case <-ctx.Done():
		}
	}
	c.options.Secrets.SetHandler(func(mr types.NamespacedName) {
		c.reconciler.changes.start(mr, c.options.Clock.Now())
		c.dispatcher.EnqueueName(ctx, mr, dispatch.PriorityUser)
	})
	defer c.options.Metrics.begin(c)()
	run("events", c.dispatcher.Watch)
	run("warnings", c.warnings.Run)

	<-ctx.Done()
	c.options.Secrets.SetHandler(nil)
	wg.Wait()
	c.tracker.Close()
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) && !errors.Is(cause, context.DeadlineExceeded) {
		return cause
	}
	return nil
}

// Began returns when the controller had learned from the source what is there, and began to work. It is zero before: a
// controller that waits for the source is not stuck.
func (c *Controller) Began() time.Time {
	if began := c.began.Load(); began != nil {
		return *began
	}
	return time.Time{}
}

// WorkersLostSince returns since when no worker of some class has been able to begin anything, because all of them are
// occupied by runs that do not end; zero if there is no such class.
func (c *Controller) WorkersLostSince() time.Time { return c.supervisor.occupiedSince() }

// OldestHandling returns since when the longest running handler of an informer has been handling an event; zero if
// none is.
func (c *Controller) OldestHandling() time.Time { return c.dispatcher.OldestHandling() }

// barrierRetry is the pause after the source did not say what is there.
const barrierRetry = time.Second

// caughtUp waits until the informer shows what the previous leader wrote; false if ctx ended before.
func (c *Controller) caughtUp(ctx context.Context) bool {
	for {
		behind, err := barrier.Await(ctx, c.options.Client, c.options.Cache)
		switch {
		case ctx.Err() != nil:
			return false
		case err == nil:
			c.options.Logger.Info("A term begins", "waitedFor", behind)
			c.began.Store(new(c.options.Clock.Now()))
			return true
		}
		c.options.Logger.Error(err, "Cannot find out whether all ManagedResources are known; trying again")
		select {
		case <-ctx.Done():
			return false
		case <-c.options.Clock.After(barrierRetry):
		}
	}
}

// sourceRetries are the pauses after errors, which are the source's: those of targets have pauses of their own. They
// end soon, for after an outage of the source what targets have come to meanwhile is still to be reported, and no event
// brings it.
func sourceRetries() workqueue.TypedRateLimiter[dispatch.Request] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[dispatch.Request](retryFirst/4, sourceRetryLast)
}

// classController has the queue and the workers of a class. It sends to ready when its queue takes requests.
func (c *Controller) classController(class ClassOptions, ready chan<- struct{}) (
	controller.TypedController[dispatch.Request], error) {
	syncs := class.ConcurrentSyncs
	if syncs <= 0 {
		syncs = 5
	}
	workers, seats := class.workers(syncs)
	c.supervisor.employ(assignment.ClassName(class.Name), workers)
	name := assignment.ClassName(class.Name)
	var requests *fairqueue.Queue[dispatch.Request] // made when the controller starts
	runs := timed{
		supervisor: c.supervisor, class: c.options.Metrics.of(class.Name), clock: c.options.Clock, log: c.options.Logger,
	}
	ctrl, err := controller.NewTypedUnmanaged("managedresource-"+name, controller.TypedOptions[dispatch.Request]{
		Reconciler: reconcile.TypedFunc[dispatch.Request](
			func(ctx context.Context, r dispatch.Request) (reconcile.Result, error) {
				return runs.Reconcile(requests.Context(ctx, r), r)
			}),
		MaxConcurrentReconciles: workers,
		SkipNameValidation:      new(true), // each term of leadership has its own
		LogConstructor: func(r *dispatch.Request) logr.Logger {
			log := c.options.Logger.WithValues("class", name)
			if r != nil {
				log = log.WithValues("target", metrics.TargetName(r.Target), "managedResource", r.String())
			}
			return log
		},
		NewQueue: func(_ string,
			limiter workqueue.TypedRateLimiter[dispatch.Request]) workqueue.TypedRateLimitingInterface[dispatch.Request] {
			requests = fairqueue.New(name, fairqueue.Options[dispatch.Request]{
				Flow:        dispatch.Flow,
				Tenant:      dispatch.Tenant,
				MaxInFlight: func(string) int { return class.share(syncs) },
				Seats:       seats,
				Workers:     workers,
				Changes:     dispatch.PriorityUser,
				RateLimiter: sourceRetries(),
				Metrics:     c.options.QueueMetrics,
				Served:      c.options.Metrics.served,
			})
			return requests
		},
		// A run is bounded by its own deadlines for each call; this is the last resort against one that hangs.
		ReconciliationTimeout: c.options.RunTimeout,
	})
	if err != nil {
		return nil, fmt.Errorf("class %q: %w", class.Name, err)
	}
	err = ctrl.Watch(source.TypedFunc[dispatch.Request](
		func(_ context.Context, queue workqueue.TypedRateLimitingInterface[dispatch.Request]) error {
			fair, ok := queue.(priorityqueue.PriorityQueue[dispatch.Request])
			if !ok {
				return fmt.Errorf("class %q: the queue is a %T without priorities", class.Name, queue)
			}
			c.dispatcher.SetQueue(class.Name, fair)
			ready <- struct{}{}
			return nil
		}))
	return ctrl, err
}
