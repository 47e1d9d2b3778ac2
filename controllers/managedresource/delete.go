package managedresource

import (
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/controllers/managedresource/observe/conditions"
	"github.com/trellis-hub/trellis/controllers/managedresource/source/assignment"
	"github.com/trellis-hub/trellis/engine/inventory"
	"github.com/trellis-hub/trellis/engine/prune"
)

// delete cleans up for a ManagedResource that is being deleted or handed over to another class, and lets go of it.
func (r *reconciler) delete(ctx context.Context, work *run) (reconcile.Result, error) {
	if states, _ := r.tracker.AcceptedStates(work.name); len(states) == 0 && !slices.Contains(work.mr.Finalizers, work.class.Finalizer) {
		r.forget(work.name) // nothing of it is ours: see takeUp
		return reconcile.Result{}, nil
	}
	if err := r.updateStatus(ctx, work, r.deletionConditions); err != nil {
		return reconcile.Result{}, err
	}
	if !work.needsNoTarget() {
		key, status, registered, err := r.targetOfObjects(ctx, work)
		if err != nil {
			return reconcile.Result{}, err
		}
		switch {
		case !registered:
			r.leave(work, "its target cluster is not registered any more")
		case givenUp(work.mr, status):
			r.leave(work, "its deletion is forced and the target cluster is not reachable")
		default:
			if gone, result, err := r.clean(ctx, work, key, status); err != nil || !gone {
				return result, err
			}
		}
	}
	return reconcile.Result{}, r.letGo(ctx, work)
}

// givenUp tells whether a user gave up on the objects in a target that cannot be reached.
func givenUp(mr *resourcesv1alpha1.ManagedResource, status clustercache.Status) bool {
	return !reachable(status) && resourcesv1alpha1.IsTruthy(mr.Annotations[resourcesv1alpha1.ForceDeletionAnnotation])
}

func reachable(status clustercache.Status) bool {
	return status.State == clustercache.StateConnected || status.State == clustercache.StateDraining
}

func (r *reconciler) deletionConditions(s *resourcesv1alpha1.ManagedResourceStatus) {
	const message = "The resources are being deleted."
	reason := resourcesv1alpha1.ReasonDeletionPending
	r.setCondition(s, resourcesv1alpha1.ConditionResourcesHealthy, resourcesv1alpha1.ConditionFalse, reason, message)
	r.setCondition(s, resourcesv1alpha1.ConditionResourcesProgressing, resourcesv1alpha1.ConditionTrue, reason, message)
	text := message
	if c := resourcesv1alpha1.GetCondition(s.Conditions, resourcesv1alpha1.ConditionResourcesApplied); c != nil && c.Reason == reason {
		text = c.Message
	}
	r.setCondition(s, resourcesv1alpha1.ConditionResourcesApplied, resourcesv1alpha1.ConditionProgressing, reason, text)
}

// targetOfObjects finds the cluster that got the objects. Without a mark, as on a ManagedResource that another instance left
// behind, it is the target that the ManagedResource belongs to.
func (r *reconciler) targetOfObjects(ctx context.Context, work *run) (clustercache.ClusterKey, clustercache.Status, bool, error) {
	bound := types.UID(work.mr.Annotations[hubv1alpha1.TargetUIDAnnotation])
	if bound == "" {
		if !work.decision.HasTarget {
			// Nothing says where the objects are, and an ambiguity may be resolved yet.
			if work.decision.Reason == resourcesv1alpha1.ReasonTargetAmbiguous {
				return clustercache.ClusterKey{}, clustercache.Status{State: clustercache.StateDisconnected, Message: work.decision.Message}, true, nil
			}
			return clustercache.ClusterKey{}, clustercache.Status{}, false, nil
		}
		status, ok := r.clusters.GetStatus(work.target)
		return work.target, status, ok, nil
	}
	key, found, err := r.claims.FindUID(ctx, work.class, work.name.Namespace, bound)
	if err != nil {
		return key, clustercache.Status{}, false, err
	}
	if found {
		status, _ := r.clusters.GetStatus(key)
		return key, status, true, nil
	}
	// A registration that does not show its cluster at present may be the one: not dialled yet, down, or refused.
	if work.decision.HasTarget {
		if status, ok := r.clusters.GetStatus(work.target); ok && status.State != clustercache.StateConnected {
			return work.target, status, true, nil
		}
	}
	// A fixed target is still there for the operator when a namespace is not selected any more: that is for him to mend.
	if !work.decision.HasTarget {
		if may, err := r.claims.FixedMayBe(ctx, work.class, bound); err != nil || may {
			return clustercache.ClusterKey{}, clustercache.Status{State: clustercache.StateDisconnected, Message: work.decision.Message}, may, err
		}
	}
	return key, clustercache.Status{}, false, nil
}

// clean deletes everything in the inventory from a target and tells whether it is gone. What is gone leaves the inventory
// at once, so that a later registration of the same name finds nothing to delete.
func (r *reconciler) clean(ctx context.Context, work *run, key clustercache.ClusterKey, status clustercache.Status) (gone bool, result reconcile.Result, err error) {
	bound := types.UID(work.mr.Annotations[hubv1alpha1.TargetUIDAnnotation])
	if !reachable(status) || bound != "" && status.UID != bound {
		message := waitsForTarget(work, key, status)
		return false, result, r.setApplied(ctx, work, resourcesv1alpha1.ConditionProgressing, resourcesv1alpha1.ReasonDeletionPending, message)
	}
	if paused, err := r.paused(ctx, key); err != nil {
		return false, result, err
	} else if paused { // unpausing it is an event
		return false, result, r.setApplied(ctx, work, resourcesv1alpha1.ConditionProgressing, resourcesv1alpha1.ReasonDeletionPending, waitsForPause(work, key))
	}
	target, err := r.access(ctx, key, status.UID)
	if err != nil {
		return false, result, err
	}
	pruning, err := r.pruneTarget(ctx, key, status.UID, target)
	if err != nil {
		return false, result, err
	}
	policy := r.prunePolicy(ctx, work, key, status.UID, nil)
	policy.Forced = resourcesv1alpha1.IsTruthy(work.mr.Annotations[resourcesv1alpha1.ForceDeletionAnnotation])
	if err := r.tracker.Track(ctx, work.name, key, work.mr.Status.Resources, exact(work.mr)); err != nil && !isDown(err) {
		return false, result, err
	}
	r.begin(work)
	defer r.tracker.End(work.name) // after a panic, too
	calls, cancel := context.WithTimeout(ctx, r.callsTimeout())
	defer cancel()
	outcomes := prune.Objects(calls, pruning, work.mr.Status.Resources, policy)
	r.tracker.End(work.name)
	if err := ctx.Err(); err != nil {
		return false, result, err
	}
	r.reportPruned(ctx, work, cleanCause(work), outcomes)
	var left []resourcesv1alpha1.ObjectReference
	var pending []prune.Outcome
	progress := false
	for _, o := range outcomes {
		progress = progress || o.Deleted
		if o.Result == prune.Pending {
			left, pending = append(left, o.Ref), append(pending, o)
		}
	}
	err = r.updateStatus(ctx, work, func(s *resourcesv1alpha1.ManagedResourceStatus) {
		s.Resources = left
		if len(pending) > 0 {
			r.setCondition(s, resourcesv1alpha1.ConditionResourcesApplied, resourcesv1alpha1.ConditionProgressing,
				resourcesv1alpha1.ReasonDeletionPending, conditions.Pending(pending))
		}
	})
	if err != nil || len(pending) == 0 {
		return err == nil, result, err
	}
	// The watches bring it back when something goes; the timer is for what they do not show.
	pause := r.memory.failed(work.name, "deletion", r.clock.Now())
	if progress {
		pause = min(pause, time.Second)
	}
	if r.wentMeanwhile(work, awaited(nil, pending)) {
		pause = busyRetry
	}
	return false, r.atDue(work, reconcile.Result{RequeueAfter: pause}, pending), nil
}

// sayPaused says of a deletion that it waits for the operator, who stopped all work on the target. Of others nothing is said:
// what their conditions tell stays true, and the TargetCluster tells of the pause.
func (r *reconciler) sayPaused(ctx context.Context, work *run) error {
	deleting := work.mr.DeletionTimestamp != nil || work.decision.Leaving
	ours := slices.Contains(work.mr.Finalizers, work.class.Finalizer) && work.mr.Annotations[hubv1alpha1.TargetUIDAnnotation] != ""
	if !deleting || !ours || work.class.DryRun {
		return nil
	}
	return r.updateStatus(ctx, work, func(s *resourcesv1alpha1.ManagedResourceStatus) {
		r.deletionConditions(s)
		r.setCondition(s, resourcesv1alpha1.ConditionResourcesApplied, resourcesv1alpha1.ConditionProgressing,
			resourcesv1alpha1.ReasonDeletionPending, waitsForPause(work, work.target))
	})
}

// waitsForTarget says of a deletion what it waits for, and what ends that if anything does (givenUp).
func waitsForTarget(work *run, key clustercache.ClusterKey, status clustercache.Status) string {
	message := fmt.Sprintf("Waiting for the target cluster to delete %d objects: %s.",
		len(work.mr.Status.Resources), describeState(key, status))
	if !reachable(status) {
		message += fmt.Sprintf(" The annotation %s=true gives up on them.", resourcesv1alpha1.ForceDeletionAnnotation)
	}
	return message
}

func waitsForPause(work *run, target clustercache.ClusterKey) string {
	return fmt.Sprintf("Waiting to delete %d objects: the target cluster %s is paused.", len(work.mr.Status.Resources), target)
}

func describeState(key clustercache.ClusterKey, status clustercache.Status) string {
	switch {
	case key.Name == "":
		return status.Message
	case status.Message == "":
		return fmt.Sprintf("%s is %s", key, status.State)
	default:
		return fmt.Sprintf("%s is %s (%s)", key, status.State, status.Message)
	}
}

// letGo removes our finalizer and marks. A ManagedResource that lives on under another class starts with an empty
// inventory: what is in it was ours, in our target.
func (r *reconciler) letGo(ctx context.Context, work *run) error {
	others := slices.ContainsFunc(r.claims.Holders(work.mr), func(c *assignment.Class) bool { return c != work.class })
	if (work.decision.Leaving || others) && len(work.mr.Status.Resources) > 0 {
		if err := r.updateStatus(ctx, work, func(s *resourcesv1alpha1.ManagedResourceStatus) { s.Resources = nil }); err != nil {
			return err
		}
	}
	r.forget(work.name)
	r.events.forget(work.mr.UID)
	base := work.mr.DeepCopy()
	work.mr.Finalizers = slices.DeleteFunc(work.mr.Finalizers, func(f string) bool { return f == work.class.Finalizer })
	if !others { // a class of ours that has nothing left to clean lets go in its turn, by the same mark
		delete(work.mr.Annotations, hubv1alpha1.TargetUIDAnnotation)
	}
	delete(work.mr.Annotations, hubv1alpha1.AppliedAnnotation)
	if err := r.source.Patch(ctx, base, work.mr, false); err != nil {
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	}
	work.log.Info("Let go of the ManagedResource", "handedOver", work.decision.Leaving)
	return nil
}

// leave tells of all that is in the inventory that it stays in the target: in the log of each object, for an event holds few.
func (r *reconciler) leave(work *run, why string) {
	r.events.released(work.mr, why, work.mr.Status.Resources)
	for _, ref := range work.mr.Status.Resources {
		work.log.Info("Left an object in the target", "object", inventory.KeyOf(ref).String(), "reason", why)
	}
}

// orphans are what an event lists of objects that stay behind.
func orphans(refs []resourcesv1alpha1.ObjectReference, limit int) string {
	return fmt.Sprintf("%d objects stay behind: %v", len(refs), names(refs, limit))
}

// names are those of the first of some objects, and the number of the rest.
func names(refs []resourcesv1alpha1.ObjectReference, limit int) []string {
	var names []string
	for i, ref := range refs {
		if i == limit {
			return append(names, fmt.Sprintf("and %d more", len(refs)-limit))
		}
		names = append(names, inventory.KeyOf(ref).String())
	}
	return names
}
