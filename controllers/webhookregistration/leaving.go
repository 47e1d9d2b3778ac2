package webhookregistration

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/controllers/internal/informers"
	"github.com/trellis-hub/trellis/metrics"
)

const (
	// leavingWorkers is how many targets are freed at a time whose registration is gone.
	leavingWorkers = 16
	// leavingTimeout bounds a try, leavingFirst and leavingLast are the shortest and the longest pause before the next.
	leavingTimeout, leavingFirst, leavingLast = 20 * time.Second, 200 * time.Millisecond, 10 * time.Second
	// memoryTimeout bounds reads that are answered by informers and cannot take long.
	memoryTimeout = time.Second
)

// leftBehind is the message of the condition when the hub can no longer reach the target.
const leftBehind = "the registration was deleted while nothing could be written to the target, so its API server " +
	"continues to call the hub: free it by trellisctl --kubeconfig <of the target> webhooks remove, or register it " +
	"again; then delete this TargetCluster, which stays as a reminder"

// leaving frees targets whose registration is gone, as long as the connection is kept for that. Package multicluster
// does not work for such targets any longer.
type leaving struct {
	*reconciler
	queue workqueue.TypedRateLimitingInterface[clustercache.ClusterKey]
}

func newLeaving(r *reconciler) *leaving {
	return &leaving{reconciler: r, queue: workqueue.NewTypedRateLimitingQueue(
		workqueue.NewTypedItemExponentialFailureRateLimiter[clustercache.ClusterKey](leavingFirst, leavingLast),
	)}
}

// start works until ctx ends. It can be called once.
func (l *leaving) start(ctx context.Context) error {
	var following sync.WaitGroup
	defer following.Wait()
	group, ctx := errgroup.WithContext(ctx)
	defer context.AfterFunc(ctx, l.queue.ShutDown)()
	group.Go(func() error { return l.followClusters(ctx) })
	group.Go(func() error {
		err := informers.Follow(ctx, l.Environment.Source, &hubv1alpha1.TargetCluster{}, &following,
			func(_, after *hubv1alpha1.TargetCluster, _ bool) {
				if after != nil && conditionOf(after) != nil {
					l.queue.Add(client.ObjectKeyFromObject(after))
				}
			})
		if ctx.Err() != nil {
			return nil //nolint:nilerr // the end of the term is no error
		}
		return err //nolint:wrapcheck // it says what was watched
	})
	for range leavingWorkers {
		group.Go(func() error {
			for l.next(ctx) {
			}
			return nil
		})
	}
	return group.Wait() //nolint:wrapcheck // they say what they did
}

func (l *leaving) followClusters(ctx context.Context) error {
	events := l.Environment.Clusters.GetClusterSource(Name + " leaving")
	defer events.Close()
	for {
		event, err := events.Next(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return fmt.Errorf("following the events of targets: %w", err)
		case event.Has(clustercache.EventDraining), event.Has(clustercache.EventConnected),
			event.Has(clustercache.EventGone):
			l.queue.Add(event.Cluster)
		}
	}
}

// next works on one target. It returns false when the queue has ended.
func (l *leaving) next(ctx context.Context) bool {
	key, ended := l.queue.Get()
	if ended {
		return false
	}
	defer l.queue.Done(key)
	ctx, cancel := context.WithTimeout(ctx, leavingTimeout)
	defer cancel()
	if err := l.free(ctx, key); err != nil {
		l.Environment.Logger.V(1).Info("Cannot free a target of webhooks whose registration is gone",
			"target", metrics.TargetName(key), "error", err.Error())
		l.queue.AddRateLimited(key)
		return true
	}
	l.queue.Forget(key)
	return true
}

// errStillEngaged means that a run has not ended that may still write configurations.
var errStillEngaged = errors.New("the registration of webhooks has not ended yet")

// free deletes the configurations in a target whose registration is gone, and reports it if that is no longer
// possible. About a target that is registered it does nothing.
func (l *leaving) free(ctx context.Context, key clustercache.ClusterKey) error {
	tc, attached := l.targetCluster(ctx, key), l.Attached.has(key)
	if !attached && (tc == nil || conditionOf(tc) == nil) {
		return nil
	}
	status, known := l.Environment.Clusters.GetStatus(key)
	switch {
	case !known && tc == nil:
		l.Attached.remove(key)
		l.Environment.Logger.Info("The API server of a target still calls webhooks: its registration and its "+
			"TargetCluster were deleted while nothing could be written to it", "target", metrics.TargetName(key))
		return nil
	case !known && registrationGone(tc):
		l.Attached.remove(key)
		return l.set(ctx, tc, &metav1.Condition{
			Status: metav1.ConditionFalse, Reason: hubv1alpha1.ReasonWebhooksLeftBehind, Message: leftBehind,
		}, nil)
	case !known, status.State != clustercache.StateDraining, tc != nil && tc.Spec.Paused:
		return nil // what changes that brings it back
	case l.isEngaged(key):
		return errStillEngaged
	}
	target, err := l.Environment.Clusters.GetUncachedClient(ctx, key)
	if err != nil {
		return err //nolint:wrapcheck // it names the target
	}
	// If the target is registered again, the configurations are created again: a watch shows that they are absent.
	if err := remove(ctx, target, l.configurationName(key)); err != nil {
		return err
	}
	l.Environment.Logger.Info("The API server of a target whose registration is gone no longer calls webhooks",
		"target", metrics.TargetName(key))
	l.Attached.remove(key)
	if tc == nil {
		return nil
	}
	return l.set(ctx, tc, nil, nil)
}

// registrationGone reports whether a TargetCluster says that it no longer has a registration.
func registrationGone(tc *hubv1alpha1.TargetCluster) bool {
	ready := meta.FindStatusCondition(tc.Status.Conditions, hubv1alpha1.ConditionReady)
	return ready != nil && ready.Reason == hubv1alpha1.ReasonRegistrationGone
}

func (r *reconciler) isEngaged(key types.NamespacedName) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.known[key] != nil
}
