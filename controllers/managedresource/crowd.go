package managedresource

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/controllers/managedresource/dispatch"
)

// When a network goes, thousands of ManagedResources have to say at once that their targets cannot be asked; when a server forgets versions,
// or takes a permission away, all those of a target have to say that it cannot be watched. That is news about targets, which the
// TargetClusters tell first; and a source that is busy with it is slow for those who correct drift elsewhere. So it is told at a pace, after
// a few that do not wait. That targets are back is told as it comes: what sums up their ManagedResources waits for the last of them.
//
// With twenty that did not wait, and no turns for watches, changes in other targets took up to 137 ms instead of 15 for a tenth of a
// second when the servers of six targets forgot all versions.
const crowdPace = 50 // a second

// tellUnreachable writes what change says of a target that cannot be asked, when it is the ManagedResource's turn. One whose last change
// was not applied yet, such as a new one, does not wait.
func (r *reconciler) tellUnreachable(ctx context.Context, work *run, change func(*resourcesv1alpha1.ManagedResourceStatus)) (reconcile.Result, error) {
	base := r.changeStatus(work, change)
	if equalStatus(&base.Status, &work.mr.Status) {
		return reconcile.Result{}, nil
	}
	if work.mr.Generation == work.mr.Status.ObservedGeneration {
		if wait := r.memory.crowd.Wait(work.name, r.clock.Now()); wait > 0 {
			work.mr = base
			return reconcile.Result{RequeueAfter: wait, Priority: new(dispatch.PriorityResync)}, nil
		}
	}
	return reconcile.Result{}, r.useTurn(ctx, base, work)
}

// useTurn writes a status whose turn has come.
func (r *reconciler) useTurn(ctx context.Context, base *resourcesv1alpha1.ManagedResource, work *run) error {
	if err := r.source.Patch(ctx, base, work.mr, true); err != nil {
		return err
	}
	r.memory.crowd.Used(work.name, r.clock.Now())
	return nil
}
