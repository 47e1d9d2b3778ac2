package managedresource

import (
	"context"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/controllers/managedresource/dispatch"
)

// When a network goes, thousands of ManagedResources have to say at once that their targets cannot be asked. That is news about targets,
// which the TargetClusters tell first; and a source that is busy with it is slow for those who correct drift elsewhere. So it is told at a
// pace, after what a few targets have to tell at once. That targets are back is told as it comes: what sums up their ManagedResources
// waits for the last of them.
const (
	crowdPace  = 100 // a second
	crowdBurst = 100
	// crowdKept is how long a turn that has come is kept for a write that has to be tried again. One that is still to come is kept
	// anyway: a target that comes and goes would have its ManagedResources queue up again and again.
	crowdKept = 5 * time.Second
)

func newCrowd() *rate.Limiter { return rate.NewLimiter(crowdPace, crowdBurst) }

// turn returns how long a ManagedResource has to wait until it may say that its target is away. Once that is zero it may, until told.
func (m *memory) turn(name types.NamespacedName, now time.Time) (wait time.Duration) {
	m.with(name, func(e *remembered) {
		if now.Sub(e.turnAt) > crowdKept {
			e.turnAt = now.Add(m.crowd.ReserveN(now, 1).DelayFrom(now))
		}
		wait = max(e.turnAt.Sub(now), 0)
	})
	return wait
}

// told ends a turn that was used.
func (m *memory) told(name types.NamespacedName) {
	m.with(name, func(e *remembered) { e.turnAt = time.Time{} })
}

// tellUnreachable writes what change says of a target that cannot be asked, when it is the ManagedResource's turn. One whose last change
// was not applied yet, such as a new one, does not wait.
func (r *reconciler) tellUnreachable(ctx context.Context, work *run, change func(*resourcesv1alpha1.ManagedResourceStatus)) (reconcile.Result, error) {
	base := r.changeStatus(work, change)
	if equalStatus(&base.Status, &work.mr.Status) {
		return reconcile.Result{}, nil
	}
	if work.mr.Generation == work.mr.Status.ObservedGeneration {
		if wait := r.memory.turn(work.name, r.clock.Now()); wait > 0 {
			work.mr = base
			return reconcile.Result{RequeueAfter: wait, Priority: new(dispatch.PriorityRetry)}, nil
		}
	}
	if err := r.source.Patch(ctx, base, work.mr, true); err != nil {
		return reconcile.Result{}, err
	}
	r.memory.told(work.name)
	return reconcile.Result{}, nil
}
