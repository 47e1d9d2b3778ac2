package managedresource

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/controllers/managedresource/observe/conditions"
	"github.com/trellis-hub/trellis/controllers/managedresource/observe/view"
)

var semantic = equality.Semantic

// evaluate writes what the watches say about health and progress. It sends nothing to the target, and nothing to the
// source unless a condition changes.
func (r *reconciler) evaluate(ctx context.Context, work *run, status clustercache.Status) (reconcile.Result, error) {
	if status.State != clustercache.StateConnected {
		return r.unreachable(ctx, work, status)
	}
	return r.evaluateBeside(ctx, work, func(*resourcesv1alpha1.ManagedResourceStatus) {})
}

// evaluateApplied is evaluate for a ManagedResource that is known to be applied, whatever its condition said in the
// meantime: that it had no target, or was ignored.
func (r *reconciler) evaluateApplied(ctx context.Context, work *run, status clustercache.Status) (reconcile.Result, error) {
	if r.tracker.TakeDone(work.name) {
		r.memory.note(work.name, r.clock.Now().Add(noteDelay)) // or a restart would run a Job again that is done
	}
	yields := r.memory.yields(work.name)
	if appliedTrue(work.mr) && len(yields) == 0 {
		return r.evaluate(ctx, work, status)
	}
	return r.evaluateBeside(ctx, work, func(s *resourcesv1alpha1.ManagedResourceStatus) {
		came := conditions.Run{Yielded: yields}
		r.set(s, resourcesv1alpha1.ConditionResourcesApplied, came.Applied())
	})
}

func (r *reconciler) evaluateBeside(ctx context.Context, work *run, change func(*resourcesv1alpha1.ManagedResourceStatus)) (reconcile.Result, error) {
	wait, err := r.updateHealth(ctx, work, func(s *resourcesv1alpha1.ManagedResourceStatus) {
		change(s)
		r.assess(ctx, s, work)
	})
	result := r.settled(work, r.tracker.Compare(work.name))
	if wait > 0 {
		result = sooner(result, wait)
	}
	return result, err
}

// assess sets ResourcesHealthy and ResourcesProgressing from what was observed. Until the watches have shown the last write
// of every object, they stay as they are: nothing is claimed that was not seen.
func (r *reconciler) assess(ctx context.Context, s *resourcesv1alpha1.ManagedResourceStatus, work *run) {
	if sight := r.see(ctx, s, work); sight != nil {
		if c, known := sight.Healthy(); known {
			r.setAssessed(s, work, resourcesv1alpha1.ConditionResourcesHealthy, resourcesv1alpha1.ConditionTrue, c)
		}
		if c, known := sight.Rollout(); known {
			r.setAssessed(s, work, resourcesv1alpha1.ConditionResourcesProgressing, resourcesv1alpha1.ConditionFalse, c)
		}
	}
}

// setAssessed sets a condition about health. While some objects are not applied, what is wrong with the others is
// said, but not that all is well: nobody knows that of the rest. What was said to be well before they failed stays
// so, as H-3 has it.
func (r *reconciler) setAssessed(s *resourcesv1alpha1.ManagedResourceStatus, work *run, t resourcesv1alpha1.ConditionType,
	good resourcesv1alpha1.ConditionStatus, c conditions.Condition) {
	if work.partial && c.Status == good {
		if before := resourcesv1alpha1.GetCondition(s.Conditions, t); before != nil && before.Status == good {
			return
		}
		c = conditions.Condition{
			Status: resourcesv1alpha1.ConditionUnknown, Reason: resourcesv1alpha1.ReasonChecksPending, Message: messagePartial,
		}
	}
	r.set(s, t, c)
}

const messagePartial = "Some objects are not applied; their checks are pending. Nothing is wrong with the others."

// assessFailure is for a run that failed, before it says so: unless it is for objects that could not be applied,
// health is not judged from then on, and what it found to be wrong must not be left to read as healthy.
func (r *reconciler) assessFailure(ctx context.Context, s *resourcesv1alpha1.ManagedResourceStatus, work *run) {
	if sight := r.see(ctx, s, work); sight != nil {
		if c, known := sight.Healthy(); known && c.Status == resourcesv1alpha1.ConditionFalse {
			r.set(s, resourcesv1alpha1.ConditionResourcesHealthy, c)
		}
	}
}

// see returns what the watches show of the objects of a ManagedResource; nil if its health is not to be judged.
func (r *reconciler) see(ctx context.Context, s *resourcesv1alpha1.ManagedResourceStatus, work *run) *conditions.Sight {
	if !r.ask(ctx, s, work) {
		return nil
	}
	applied := resourcesv1alpha1.GetCondition(s.Conditions, resourcesv1alpha1.ConditionResourcesApplied)
	subject := view.Subject{
		ManagedResource: work.name, Cluster: work.target, Resources: s.Resources,
		Late: func(blind bool) bool { return r.memory.blindFor(work.name, blind, r.clock.Now()) >= syncGrace },
	}
	work.partial = false
	switch {
	case applied == nil:
		r.endSilence(s)
		return nil
	case applied.Status == resourcesv1alpha1.ConditionTrue:
		subject.Applied = true
	case applied.Reason == resourcesv1alpha1.ReasonDecodingFailed, applied.Reason == resourcesv1alpha1.ReasonOwnedByOther:
	case applied.Status == resourcesv1alpha1.ConditionFalse && applied.Reason == resourcesv1alpha1.ReasonApplyFailed:
		r.endSilence(s)
		work.partial, subject.Partial, subject.Resources = true, true, onceApplied(s.Resources)
		if len(subject.Resources) == 0 {
			return nil
		}
	default:
		r.endSilence(s)
		return nil // only what was applied is assessed
	}
	seen := r.viewer.Look(subject)
	work.unjudged, work.explained, work.reading = seen.Unjudged, len(seen.Explained) > 0, seen.Reading
	return &seen.Sight
}

// onceApplied are the entries of objects that were applied, if not as they should be now. Others may never have been
// created.
func onceApplied(refs []resourcesv1alpha1.ObjectReference) []resourcesv1alpha1.ObjectReference {
	return slices.DeleteFunc(slices.Clone(refs), func(ref resourcesv1alpha1.ObjectReference) bool { return ref.UID == "" })
}

// ask tells whether the target can be asked about the objects. If it cannot although it should, it sets the conditions.
// Those of a target that is meant to be away stay as they are, as soon as that is said and until it is over: its nodes
// go before its API server does, and come after it.
func (r *reconciler) ask(ctx context.Context, s *resourcesv1alpha1.ManagedResourceStatus, work *run) bool {
	status, registered := r.clusters.GetStatus(work.target) // the one that a run began with may be over
	switch {
	case !registered, r.hibernated(ctx, work), status.Held,
		status.State == clustercache.StateConnecting, status.State == clustercache.StateHibernated:
		return false
	case status.State != clustercache.StateConnected:
		r.setUnreachable(s, work, status)
		return false
	}
	return status.UID == work.clusterUID()
}
