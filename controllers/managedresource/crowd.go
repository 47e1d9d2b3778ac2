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

// When a network goes, thousands of ManagedResources have to say at once that their targets cannot be asked, and when it returns, that
// they can. All of that is news about targets, which the TargetClusters tell first; and a source that is busy with it is slow for those
// who correct drift elsewhere. So it is told at a pace, after what a few targets have to tell at once.
const (
	crowdPace  = 100 // a second
	crowdBurst = 100
	// crowdKept is how long a place that was not used is kept: a target that comes and goes would have its ManagedResources queue up
	// again and again.
	crowdKept = time.Minute
)

func newCrowd() *rate.Limiter { return rate.NewLimiter(crowdPace, crowdBurst) }

// turn returns how long a ManagedResource has to wait to tell news of its target. It may once that is zero.
func (m *memory) turn(name types.NamespacedName, now time.Time) (wait time.Duration) {
	m.with(name, func(e *remembered) {
		if now.Sub(e.turnAt) > crowdKept {
			e.turnAt = now.Add(m.crowd.ReserveN(now, 1).DelayFrom(now))
		}
		if wait = max(e.turnAt.Sub(now), 0); wait == 0 {
			e.turnAt = time.Time{}
		}
	})
	return wait
}

// tellUnreachable writes what change says of a target that cannot be asked, when it is the ManagedResource's turn. Whoever changed it
// just now is told at once.
func (r *reconciler) tellUnreachable(ctx context.Context, work *run, change func(*resourcesv1alpha1.ManagedResourceStatus)) (reconcile.Result, error) {
	base := r.changeStatus(work, change)
	if equalStatus(&base.Status, &work.mr.Status) {
		return reconcile.Result{}, nil
	}
	if work.mr.Generation == work.mr.Status.ObservedGeneration {
		if wait := r.memory.turn(work.name, r.clock.Now()); wait > 0 {
			work.mr = base
			return reconcile.Result{RequeueAfter: wait, Priority: new(dispatch.PriorityResync)}, nil
		}
	}
	return reconcile.Result{}, r.source.Patch(ctx, base, work.mr, true)
}

// returned tells whether a change of a status is that the target can be asked again.
func returned(before, after *resourcesv1alpha1.ManagedResourceStatus) bool {
	return saysUnreachable(before) && !saysUnreachable(after)
}

func saysUnreachable(s *resourcesv1alpha1.ManagedResourceStatus) bool {
	c := resourcesv1alpha1.GetCondition(s.Conditions, resourcesv1alpha1.ConditionResourcesHealthy)
	return c != nil && c.Status == resourcesv1alpha1.ConditionUnknown && c.Reason == resourcesv1alpha1.ReasonTargetUnreachable
}
