package managedresource

import (
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/controllers/managedresource/objects"
	"github.com/trellis-hub/trellis/controllers/managedresource/observe/conditions"
	"github.com/trellis-hub/trellis/controllers/managedresource/source/assignment"
	"github.com/trellis-hub/trellis/controllers/managedresource/status"
	"github.com/trellis-hub/trellis/controllers/managedresource/telemetry"
	"github.com/trellis-hub/trellis/engine/prune"
)

// announceDeletion says that the objects are being deleted. Of a ManagedResource that was never ours nothing is
// (adopt).
func (r *reconciler) announceDeletion(ctx context.Context, s *scope) (bool, reconcile.Result, error) {
	if states, _ := r.tracker.AcceptedStates(s.Name); len(states) == 0 && !s.Marked() {
		r.forget(s)
		return end(nil)
	}
	err := r.status.Write(ctx, &s.Subject, (*status.Draft).Deleting)
	return err != nil, reconcile.Result{}, err
}

// cleanUp deletes the objects in the cluster that got them, unless that is impossible or not allowed.
func (r *reconciler) cleanUp(ctx context.Context, s *scope) (bool, reconcile.Result, error) {
	if s.NeedsNoTarget() {
		return goOn()
	}
	key, targetStatus, registered, err := r.targets.OfObjects(ctx, &s.Subject, r.assigner)
	if err != nil {
		return end(err)
	}
	switch {
	case !registered:
		r.events.Left(&s.Subject, "its target cluster is no longer registered")
	case objects.GivenUp(s.MR, targetStatus):
		r.events.Left(&s.Subject, "its deletion is forced and the target cluster is not reachable")
	default:
		return r.clean(ctx, s, key, targetStatus)
	}
	return goOn()
}

// clean deletes everything in the inventory from a target, and ends the run while it is not gone. What is gone leaves
// the inventory at once, so that a later registration of the same name finds nothing to delete.
func (r *reconciler) clean(
	ctx context.Context, s *scope, key clustercache.ClusterKey, targetStatus clustercache.Status,
) (bool, reconcile.Result, error) {
	waits := func(message string) (bool, reconcile.Result, error) {
		return end(r.status.Write(ctx, &s.Subject, func(d *status.Draft) {
			d.Say(resourcesv1alpha1.ConditionResourcesApplied, resourcesv1alpha1.ConditionProgressing,
				resourcesv1alpha1.ReasonDeletionPending, message)
		}))
	}
	if bound := s.BoundUID(); !objects.Reachable(targetStatus) || bound != "" && targetStatus.UID != bound {
		return waits(waitsForTarget(s, key, targetStatus))
	}
	if paused, err := r.targets.Paused(ctx, key); err != nil {
		return end(err)
	} else if paused { // unpausing it is an event
		return waits(waitsForPause(s, key))
	}
	target, err := r.targets.Access(ctx, key, targetStatus.UID)
	if err != nil {
		return end(err)
	}
	pruning, err := r.targets.PruneAccess(ctx, key, targetStatus.UID, target)
	if err != nil {
		return end(err)
	}
	policy := r.objects.PrunePolicy(r.neighbours.In(ctx, &s.Subject, targetStatus.UID, key), nil)
	policy.Forced = resourcesv1alpha1.IsTruthy(s.MR.Annotations[resourcesv1alpha1.ForceDeletionAnnotation])
	err = r.tracker.Track(ctx, s.Name, key, s.MR.Status.Resources, objects.Exact(s.MR))
	if err != nil && !objects.IsDown(err) {
		return end(err)
	}
	s.seen.Compared, _ = r.objects.Begin(&s.Subject)
	s.present = s.seen.Compared.Observed
	defer r.tracker.End(s.Name) // after a panic, too
	calls, cancel := context.WithTimeout(ctx, r.callsTimeout)
	defer cancel()
	outcomes := prune.Objects(calls, pruning, s.MR.Status.Resources, policy)
	r.tracker.End(s.Name)
	if err := ctx.Err(); err != nil {
		return end(err)
	}
	r.events.ReportPruned(&s.Subject, telemetry.CleanCause(&s.Subject), outcomes, nil)
	var left []resourcesv1alpha1.ObjectReference
	var pending []prune.Outcome
	progress := false
	for _, o := range outcomes {
		progress = progress || o.Deleted
		if o.Result == prune.Pending {
			left, pending = append(left, o.Ref), append(pending, o)
		}
	}
	err = r.status.Write(ctx, &s.Subject, func(d *status.Draft) {
		d.Resources = left
		if len(pending) > 0 {
			d.Say(resourcesv1alpha1.ConditionResourcesApplied, resourcesv1alpha1.ConditionProgressing,
				resourcesv1alpha1.ReasonDeletionPending, conditions.Pending(pending))
		}
	})
	if err != nil || len(pending) == 0 {
		return err != nil, reconcile.Result{}, err
	}
	// The watches bring it back when something goes; the timer is for what they do not show.
	pause := s.fail("deletion").RequeueAfter
	if progress {
		pause = min(pause, time.Second)
	}
	if r.objects.WentMeanwhile(&s.Subject, s.present, awaited(nil, pending)) {
		pause = busyRetry
	}
	return endWith(s.whenDue(reconcile.Result{RequeueAfter: pause}, pending), nil)
}

// letGo removes our finalizer and marks. A ManagedResource that lives on under another class starts with an empty
// inventory: what is in it was ours, in our target.
func (r *reconciler) letGo(ctx context.Context, s *scope) (bool, reconcile.Result, error) {
	others := slices.ContainsFunc(r.assigner.Holders(s.MR), func(c *assignment.Class) bool { return c != s.Class })
	if (s.Decision.Leaving || others) && len(s.MR.Status.Resources) > 0 {
		if err := r.status.Write(ctx, &s.Subject, func(d *status.Draft) { d.Resources = nil }); err != nil {
			return end(err)
		}
	}
	r.forget(s)
	r.events.Forget(s.MR.UID)
	base := s.MR.DeepCopy()
	s.MR.Finalizers = slices.DeleteFunc(s.MR.Finalizers, func(f string) bool { return f == s.Class.Finalizer })
	if !others { // a class of ours that has nothing left to clean lets go in its turn, by the same mark
		delete(s.MR.Annotations, hubv1alpha1.TargetUIDAnnotation)
	}
	delete(s.MR.Annotations, hubv1alpha1.AppliedAnnotation)
	if err := r.store.Patch(ctx, base, s.MR, false); err != nil {
		if apierrors.IsNotFound(err) {
			return end(nil)
		}
		return end(err)
	}
	s.Log.Info("Let go of the ManagedResource", "handedOver", s.Decision.Leaving)
	return end(nil)
}

// waitsForTarget says of a deletion what it waits for, and what ends that if anything does (objects.GivenUp).
func waitsForTarget(s *scope, key clustercache.ClusterKey, status clustercache.Status) string {
	message := fmt.Sprintf("Waiting for the target cluster to delete %d objects: %s.",
		len(s.MR.Status.Resources), describeState(key, status))
	if !objects.Reachable(status) {
		message += fmt.Sprintf(" The annotation %s=true gives up on them.", resourcesv1alpha1.ForceDeletionAnnotation)
	}
	return message
}

func waitsForPause(s *scope, target clustercache.ClusterKey) string {
	return fmt.Sprintf("Waiting to delete %d objects: the target cluster %s is paused.",
		len(s.MR.Status.Resources), target)
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
