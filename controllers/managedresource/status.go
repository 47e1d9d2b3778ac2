package managedresource

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/controllers/managedresource/dispatch"
	"github.com/trellis-hub/trellis/controllers/managedresource/observe/conditions"
)

// updateStatus patches the status if change makes a difference. The summary follows from the other conditions.
func (r *reconciler) updateStatus(ctx context.Context, work *run, change func(*resourcesv1alpha1.ManagedResourceStatus)) error {
	base := r.changeStatus(work, change)
	if equalStatus(&base.Status, &work.mr.Status) {
		return nil
	}
	return r.source.Patch(ctx, base, work.mr, true)
}

// changeStatus changes the status and what follows from it, and returns the ManagedResource as it was.
func (r *reconciler) changeStatus(work *run, change func(*resourcesv1alpha1.ManagedResourceStatus)) (base *resourcesv1alpha1.ManagedResource) {
	base = new(*work.mr) // of a status nothing is changed in its place
	s := &work.mr.Status
	change(s)
	r.contest(s, work.name)
	if len(s.Conditions) > 0 {
		r.set(s, resourcesv1alpha1.ConditionReady, conditions.Ready(s.Conditions, work.mr.Generation, s.ObservedGeneration))
	}
	return base
}

func (r *reconciler) setCondition(s *resourcesv1alpha1.ManagedResourceStatus, t resourcesv1alpha1.ConditionType, status resourcesv1alpha1.ConditionStatus, reason, message string) {
	r.set(s, t, conditions.Condition{Status: status, Reason: reason, Message: message})
}

func (r *reconciler) set(s *resourcesv1alpha1.ManagedResourceStatus, t resourcesv1alpha1.ConditionType, c conditions.Condition) {
	s.Conditions = resourcesv1alpha1.SetCondition(r.clock.Now(), s.Conditions, t, c.Status, c.Reason, conditions.Bound(c.Message))
}

// setApplied writes ResourcesApplied alone.
func (r *reconciler) setApplied(ctx context.Context, work *run, status resourcesv1alpha1.ConditionStatus, reason, message string) error {
	return r.updateStatus(ctx, work, func(s *resourcesv1alpha1.ManagedResourceStatus) {
		r.setCondition(s, resourcesv1alpha1.ConditionResourcesApplied, status, reason, message)
	})
}

// notApplied says why nothing can be applied, whether or not there is a target at the moment.
func (r *reconciler) notApplied(ctx context.Context, work *run, reason, message string) error {
	return r.updateStatus(ctx, work, func(s *resourcesv1alpha1.ManagedResourceStatus) {
		r.setCondition(s, resourcesv1alpha1.ConditionResourcesApplied, resourcesv1alpha1.ConditionFalse, reason, message)
		if r.ask(ctx, s, work) {
			r.endSilence(s)
		}
	})
}

// pendingConditions says that new content is about to be applied. A failure or a pending deletion stays visible until
// the run is over.
func (r *reconciler) pendingConditions(s *resourcesv1alpha1.ManagedResourceStatus) {
	r.setCondition(s, resourcesv1alpha1.ConditionResourcesHealthy, resourcesv1alpha1.ConditionUnknown, resourcesv1alpha1.ReasonChecksPending, messageChecksPending)
	r.setCondition(s, resourcesv1alpha1.ConditionResourcesProgressing, resourcesv1alpha1.ConditionUnknown, resourcesv1alpha1.ReasonChecksPending, messageChecksPending)
	reason, message := resourcesv1alpha1.ReasonApplyProgressing, "The resources are being applied."
	if c := resourcesv1alpha1.GetCondition(s.Conditions, resourcesv1alpha1.ConditionResourcesApplied); c != nil {
		switch c.Reason {
		case resourcesv1alpha1.ReasonApplyFailed, resourcesv1alpha1.ReasonDeletionFailed, resourcesv1alpha1.ReasonDeletionPending:
			reason, message = c.Reason, c.Message
		}
	}
	r.setCondition(s, resourcesv1alpha1.ConditionResourcesApplied, resourcesv1alpha1.ConditionProgressing, reason, message)
}

// endSilence is for conditions that say that there was nobody to ask, when there is again. What was said before is outdated,
// and whatever is to be done now may fail.
func (r *reconciler) endSilence(s *resourcesv1alpha1.ManagedResourceStatus) {
	c := resourcesv1alpha1.GetCondition(s.Conditions, resourcesv1alpha1.ConditionResourcesHealthy)
	if c == nil || c.Status != resourcesv1alpha1.ConditionUnknown || c.Reason == resourcesv1alpha1.ReasonChecksPending {
		return
	}
	r.unknownHealth(s, resourcesv1alpha1.ReasonChecksPending, "The target cluster answers again; the checks are pending.")
}

const messageChecksPending = "The content changed; its checks are pending."

// ignored stops everything and reports that.
func (r *reconciler) ignored(ctx context.Context, work *run) error {
	const message = "The ManagedResource is marked to be ignored."
	return r.updateStatus(ctx, work, func(s *resourcesv1alpha1.ManagedResourceStatus) {
		reason := resourcesv1alpha1.ReasonManagedResourceIgnored
		r.setCondition(s, resourcesv1alpha1.ConditionResourcesApplied, resourcesv1alpha1.ConditionTrue, reason, message)
		r.setCondition(s, resourcesv1alpha1.ConditionResourcesHealthy, resourcesv1alpha1.ConditionTrue, reason, message)
		r.setCondition(s, resourcesv1alpha1.ConditionResourcesProgressing, resourcesv1alpha1.ConditionFalse, reason, message)
	})
}

// wasIgnored tells whether a condition says that the ManagedResource is ignored. It says nothing about one that is not.
func wasIgnored(s *resourcesv1alpha1.ManagedResourceStatus) bool {
	return slices.ContainsFunc([]resourcesv1alpha1.ConditionType{
		resourcesv1alpha1.ConditionResourcesApplied, resourcesv1alpha1.ConditionResourcesHealthy,
	}, func(t resourcesv1alpha1.ConditionType) bool {
		c := resourcesv1alpha1.GetCondition(s.Conditions, t)
		return c != nil && c.Reason == resourcesv1alpha1.ReasonManagedResourceIgnored
	})
}

// notIgnored ends what ignored said. What is true instead shows when the target is asked.
func (r *reconciler) notIgnored(s *resourcesv1alpha1.ManagedResourceStatus) {
	const message = "The ManagedResource is not ignored any more; its checks are pending."
	r.unknownHealth(s, resourcesv1alpha1.ReasonChecksPending, message)
	r.setCondition(s, resourcesv1alpha1.ConditionResourcesApplied, resourcesv1alpha1.ConditionProgressing,
		resourcesv1alpha1.ReasonApplyProgressing, "The resources are being applied.")
}

// withoutTarget says that there is no target, or too many. Events bring it back.
func (r *reconciler) withoutTarget(ctx context.Context, work *run) (reconcile.Result, error) {
	r.tracker.Forget(work.name)
	err := r.updateStatus(ctx, work, func(s *resourcesv1alpha1.ManagedResourceStatus) {
		r.setCondition(s, resourcesv1alpha1.ConditionResourcesApplied, resourcesv1alpha1.ConditionFalse, work.decision.Reason, work.decision.Message)
		r.unknownHealth(s, work.decision.Reason, work.decision.Message)
	})
	return reconcile.Result{}, err
}

// unreachable says that the target cannot be asked. What was applied stays applied, as far as anybody knows. Nothing is
// said about a target that was not dialled yet, that may be back in a moment, or that is meant to be away.
func (r *reconciler) unreachable(ctx context.Context, work *run, status clustercache.Status) (reconcile.Result, error) {
	switch status.State {
	case clustercache.StateConnecting, clustercache.StateConnected, clustercache.StateHibernated:
		return reconcile.Result{}, nil
	}
	if status.Held || r.hibernated(ctx, work) {
		return reconcile.Result{}, nil
	}
	return r.tellUnreachable(ctx, work, func(s *resourcesv1alpha1.ManagedResourceStatus) { r.setUnreachable(s, work, status) })
}

func (r *reconciler) setUnreachable(s *resourcesv1alpha1.ManagedResourceStatus, work *run, status clustercache.Status) {
	reason := resourcesv1alpha1.ReasonTargetUnreachable
	message := fmt.Sprintf("The target cluster %s is not reachable since %s: %s", work.target, status.Since.UTC().Format(time.RFC3339), dispatch.WhyDown(status))
	if status.State == clustercache.StateRefused {
		reason = resourcesv1alpha1.ReasonTargetRefused
		if status.Reason == clustercache.ReasonIdentityChanged {
			reason = resourcesv1alpha1.ReasonIdentityChanged
		}
		message = fmt.Sprintf("The registration of the target cluster %s is not usable: %s", work.target, status.Message)
	}
	r.unknownHealth(s, reason, message)
	// There was no target before, and now there is one. Whether anything was applied to it shows when it can be asked.
	if c := resourcesv1alpha1.GetCondition(s.Conditions, resourcesv1alpha1.ConditionResourcesApplied); c != nil &&
		(c.Reason == resourcesv1alpha1.ReasonTargetNotFound || c.Reason == resourcesv1alpha1.ReasonTargetAmbiguous) {
		r.setCondition(s, resourcesv1alpha1.ConditionResourcesApplied, resourcesv1alpha1.ConditionUnknown, reason, message)
	}
}

func (r *reconciler) unknownHealth(s *resourcesv1alpha1.ManagedResourceStatus, reason, message string) {
	r.setCondition(s, resourcesv1alpha1.ConditionResourcesHealthy, resourcesv1alpha1.ConditionUnknown, reason, message)
	r.setCondition(s, resourcesv1alpha1.ConditionResourcesProgressing, resourcesv1alpha1.ConditionUnknown, reason, message)
}

// equalStatus compares what a patch would send. Each look at a ManagedResource does, and to compare the inventory by reflection took a
// fifth of it.
func equalStatus(a, b *resourcesv1alpha1.ManagedResourceStatus) bool {
	if !slices.EqualFunc(a.Resources, b.Resources, equalReference) {
		return false
	}
	x, y := *a, *b
	x.Resources, y.Resources = nil, nil
	return semantic.DeepEqual(x, y)
}

func equalReference(a, b resourcesv1alpha1.ObjectReference) bool {
	return a.ObjectReference == b.ObjectReference && maps.Equal(a.Labels, b.Labels) && maps.Equal(a.Annotations, b.Annotations)
}
