package workers

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/controllers/managedresource/dispatch"
	"github.com/trellis-hub/trellis/controllers/managedresource/source/assignment"
	"github.com/trellis-hub/trellis/controllers/managedresource/telemetry"
	"github.com/trellis-hub/trellis/fairqueue"
	"github.com/trellis-hub/trellis/metrics"
)

// Class is a class with the size of its pool.
type Class struct {
	*assignment.Class
	// ConcurrentSyncs is the number of ManagedResources that are worked on at the same time, without those that wait for
	// their targets; default 5.
	ConcurrentSyncs int
}

// share is how many runs of a class may be under way for one target: a few where there are many targets, all where
// there is one.
func (c Class) share(concurrentSyncs int) int {
	if c.FixedTarget() != (clustercache.ClusterKey{}) {
		return concurrentSyncs
	}
	return max(1, min(4, concurrentSyncs))
}

// workersForSeat is how many runs may be under way for each one that may compute. All but those wait for their targets,
// and cost a goroutine of some KiB.
const workersForSeat = 50

// size is how many runs of a class may be under way, and seats how many of them may compute at the same time. A
// class with one target has no other target to protect from it: zero seats.
func (c Class) size(concurrentSyncs int) (workers, seats int) {
	if c.FixedTarget() != (clustercache.ClusterKey{}) {
		return concurrentSyncs, 0
	}
	return workersForSeat * concurrentSyncs, concurrentSyncs
}

// Options are those of workers. All but QueueMetrics are required.
type Options struct {
	// Run works on a request.
	Run func(context.Context, dispatch.Request) (reconcile.Result, error)
	// RunTimeout bounds a run. A run is bounded by its own deadlines for each call; this is the last resort against one
	// that hangs.
	RunTimeout time.Duration
	Clock      clock.Clock
	Logger     logr.Logger
	Metrics    *telemetry.Metrics
	// QueueMetrics takes the figures of the queues; nil for none.
	QueueMetrics *fairqueue.Metrics
}

// Workers are the queues of all classes, and what works on them.
type Workers struct {
	options    Options
	supervisor *supervisor
}

// New returns workers of no class.
func New(o Options) *Workers {
	return &Workers{options: o, supervisor: newSupervisor(o.Run, o.Clock, o.Logger)}
}

// LostSince returns since when all workers of some class have been occupied by runs that do not end; zero if there is
// no such class.
func (w *Workers) LostSince() time.Time { return w.supervisor.occupiedSince() }

// Pauses after the source did not take a write.
const (
	sourceRetryFirst = 250 * time.Millisecond
	sourceRetryLast  = 15 * time.Second
)

// sourceRetries are the pauses after errors, which are the source's: those of targets have pauses of their own. They
// end soon, for after an outage of the source what targets have come to meanwhile is still to be reported, and no event
// brings it.
func sourceRetries() workqueue.TypedRateLimiter[dispatch.Request] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[dispatch.Request](sourceRetryFirst, sourceRetryLast)
}

// Controller returns the queue and the workers of a class, which are not started. ready is called with the queue when
// it takes requests.
func (w *Workers) Controller(
	class Class, ready func(priorityqueue.PriorityQueue[dispatch.Request]),
) (controller.TypedController[dispatch.Request], error) {
	syncs := class.ConcurrentSyncs
	if syncs <= 0 {
		syncs = 5
	}
	count, seats := class.size(syncs)
	name := assignment.ClassName(class.Name)
	w.supervisor.employ(name, count)
	var requests *fairqueue.Queue[dispatch.Request] // made when the controller starts
	runs := timed{
		supervisor: w.supervisor, class: w.options.Metrics.Of(class.Name), clock: w.options.Clock, log: w.options.Logger,
	}
	ctrl, err := controller.NewTypedUnmanaged("managedresource-"+name, controller.TypedOptions[dispatch.Request]{
		Reconciler: reconcile.TypedFunc[dispatch.Request](
			func(ctx context.Context, r dispatch.Request) (reconcile.Result, error) {
				return runs.Reconcile(requests.Context(ctx, r), r)
			}),
		MaxConcurrentReconciles: count,
		SkipNameValidation:      new(true), // each term of leadership has its own
		LogConstructor: func(r *dispatch.Request) logr.Logger {
			log := w.options.Logger.WithValues("class", name)
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
				Workers:     count,
				Changes:     dispatch.PriorityUser,
				RateLimiter: sourceRetries(),
				Metrics:     w.options.QueueMetrics,
				Served:      w.options.Metrics.Served,
			})
			return requests
		},
		ReconciliationTimeout: w.options.RunTimeout,
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
			ready(fair)
			return nil
		}))
	return ctrl, err
}
