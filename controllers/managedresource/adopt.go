package managedresource

import (
	"context"
	"fmt"
	"time"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/controllers/managedresource/dispatch"
	"github.com/trellis-hub/trellis/controllers/managedresource/objects"
	"github.com/trellis-hub/trellis/controllers/managedresource/status"
)

// identityRetry is for a TargetCluster whose event was missed.
const identityRetry = 10 * time.Second

// adopt forgets what a ManagedResource that is not ours yet says about objects. Our finalizer comes before the first
// write to a target and goes after the last, so without it there is nothing of ours: an inventory is what an instance
// of another class left behind when it cleaned up its own target, and objects of the same names in our target are not
// meant by it. A Gardener resource manager of the same class has the same finalizer: what it leaves is taken over.
func (r *reconciler) adopt(ctx context.Context, s *scope) (bool, reconcile.Result, error) {
	if !s.Decision.HasTarget { // or too many; events bring it back
		r.tracker.Forget(s.Name)
		return end(r.status.Write(ctx, &s.Subject, func(d *status.Draft) {
			d.Say(resourcesv1alpha1.ConditionResourcesApplied, resourcesv1alpha1.ConditionFalse,
				s.Decision.Reason, s.Decision.Message)
			d.UnknownHealth(s.Decision.Reason, s.Decision.Message)
		}))
	}
	// Objects that are known are ours, although another client removed the finalizer.
	if states, _ := r.tracker.AcceptedStates(s.Name); !s.Marked() && len(states) == 0 {
		if err := r.status.Write(ctx, &s.Subject, func(d *status.Draft) { d.Resources = nil }); err != nil {
			return end(err)
		}
		base := s.MR.DeepCopy()
		delete(s.MR.Annotations, hubv1alpha1.TargetUIDAnnotation)
		delete(s.MR.Annotations, hubv1alpha1.AppliedAnnotation)
		if len(base.Annotations) != len(s.MR.Annotations) {
			if err := r.store.Patch(ctx, base, s.MR, false); err != nil {
				return end(err)
			}
		}
	}
	if status.WasIgnored(&s.MR.Status) { // whatever follows, it is not ignored any longer
		if err := r.status.Write(ctx, &s.Subject, (*status.Draft).NotIgnored); err != nil {
			return end(err)
		}
	}
	return goOn()
}

// migrate deals with a ManagedResource whose objects are in another cluster than the one it belongs to now: they are
// deleted there, or left if that cluster is gone.
func (r *reconciler) migrate(ctx context.Context, s *scope) (bool, reconcile.Result, error) {
	s.targetStatus, _ = r.targets.Clusters.GetStatus(s.Target)
	bound, now := s.BoundUID(), s.targetStatus
	if bound == "" || now.State != clustercache.StateConnected || now.UID == bound {
		return goOn()
	}
	if now.PendingSecretResourceVersion != "" {
		// The connection is one that its registration does not mean any longer. The new content may lead to where the
		// objects are, and nothing is deleted on account of what is outdated. The connection that follows is an event.
		return endWith(reconcile.Result{RequeueAfter: identityRetry, Priority: new(dispatch.PriorityRetry)},
			r.health.awaitsConnection(ctx, s))
	}
	old, found, err := r.assigner.FindUID(ctx, s.Class, s.Name.Namespace, bound)
	if err != nil {
		return end(err)
	}
	oldStatus, _ := r.targets.Clusters.GetStatus(old)
	switch {
	case len(s.MR.Status.Resources) == 0 || ptr.Deref(s.MR.Spec.KeepObjects, false):
	case !found:
		r.events.Left(&s.Subject, fmt.Sprintf("the cluster with UID %s is no longer registered", bound))
	case objects.GivenUp(s.MR, oldStatus):
		r.events.Left(&s.Subject, "their deletion is forced and the old target cluster is not reachable")
	default:
		if err := r.status.Write(ctx, &s.Subject, (*status.Draft).Pending); err != nil {
			return end(err)
		}
		if done, result, err := r.clean(ctx, s, old, oldStatus); done || err != nil {
			return done, result, err
		}
	}
	s.Log.Info("Moving to another target", "oldTargetUID", bound, "newTargetUID", now.UID)
	r.forget(s)
	s.forgotten = false // it continues elsewhere
	if err := r.status.Write(ctx, &s.Subject, func(d *status.Draft) { d.Resources = nil }); err != nil {
		return end(err)
	}
	// Bound to the new one in one step: a finalizer without a mark would belong to no target.
	base := s.MR.DeepCopy()
	s.MR.Annotations[hubv1alpha1.TargetUIDAnnotation] = string(now.UID)
	delete(s.MR.Annotations, hubv1alpha1.AppliedAnnotation)
	return false, reconcile.Result{}, r.store.Patch(ctx, base, s.MR, false)
}

// identify ends the run while it is not known, or not written down, which cluster the target is: a hub that dies in
// this moment would not notice that the kubeconfig leads elsewhere when it starts again. Then the watches begin.
func (r *reconciler) identify(ctx context.Context, s *scope) (bool, reconcile.Result, error) {
	bound, uid := s.BoundUID(), s.targetStatus.UID
	if uid == "" || s.targetStatus.State == clustercache.StateRefused || bound != "" && bound != uid {
		return endWith(r.health.unreachable(ctx, s))
	}
	if known, err := r.targets.IdentityKnown(ctx, s.Target, uid); err != nil || !known {
		return endWith(reconcile.Result{RequeueAfter: identityRetry}, err)
	}
	err := r.tracker.Track(ctx, s.Name, s.Target, s.MR.Status.Resources, objects.Exact(s.MR))
	if err != nil && !objects.IsDown(err) {
		return end(err)
	}
	return goOn()
}
