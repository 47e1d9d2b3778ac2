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
	"k8s.io/utils/clock"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"

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
	"github.com/trellis-hub/trellis/controllers/managedresource/telemetry"
	"github.com/trellis-hub/trellis/controllers/managedresource/workers"
	"github.com/trellis-hub/trellis/engine/bundle"
	"github.com/trellis-hub/trellis/fairqueue"
)

// Options of a Controller. All fields without a default are required.
type Options struct {
	// Cache holds the informers of the source: ManagedResources, TargetClusters, Leases and Namespaces.
	Cache ctrlcache.Cache
	// Client writes to the source. It must not read from Cache.
	Client   client.Client
	Clusters clustercache.ClusterCache
	Secrets  *secretindex.Index
	Bundles  *bundle.Cache
	Classes  []workers.Class
	Events   events.EventRecorder
	Metrics  *telemetry.Metrics
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
	workers    *workers.Workers
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
		TakePending: func(mr types.NamespacedName) bool { return c.reconciler.interrupted.Take(mr) },
	})
	c.warnings = notes.New(notes.Options{
		Client: o.Clusters.GetUncachedClient, Clock: o.Clock, Logger: o.Logger,
		Notify: func(mr types.NamespacedName) { c.notify(mr, tracker.CauseHealth) },
	})
	c.reconciler = newReconciler(o, c, source)
	c.workers = workers.New(workers.Options{
		Run: c.reconciler.Reconcile, RunTimeout: o.RunTimeout, Clock: o.Clock, Logger: o.Logger, Metrics: o.Metrics,
		QueueMetrics: o.QueueMetrics,
	})
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
		c.reconciler.drifts.Start(mr, c.options.Clock.Now())
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
	start := func(what string, f func(context.Context) error) {
		wg.Go(func() {
			if err := f(ctx); err != nil && ctx.Err() == nil {
				cancel(fmt.Errorf("%s: %w", what, err))
			}
		})
	}
	ready := make(chan struct{}, len(c.options.Classes))
	for _, class := range c.options.Classes {
		ctrl, err := c.workers.Controller(class, func(queue priorityqueue.PriorityQueue[dispatch.Request]) {
			c.dispatcher.SetQueue(class.Name, queue)
			ready <- struct{}{}
		})
		if err != nil {
			cancel(err)
			break
		}
		start(fmt.Sprintf("class %q", class.Name), ctrl.Start)
	}
	for range c.options.Classes {
		select {
		case <-ready:
		case <-ctx.Done():
		}
	}
	c.options.Secrets.SetHandler(func(mr types.NamespacedName) {
		c.reconciler.changes.Start(mr, c.options.Clock.Now())
		c.dispatcher.EnqueueName(ctx, mr, dispatch.PriorityUser)
	})
	defer c.options.Metrics.Begin(telemetry.Term{
		Cache: c.options.Cache, Clusters: c.options.Clusters, Assigner: c.assigner, Tracker: c.tracker,
		Changes: c.reconciler.changes, QueueMetrics: c.options.QueueMetrics, Clock: c.options.Clock,
	})()
	start("events", c.dispatcher.Watch)
	start("warnings", c.warnings.Run)

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
func (c *Controller) WorkersLostSince() time.Time { return c.workers.LostSince() }

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
