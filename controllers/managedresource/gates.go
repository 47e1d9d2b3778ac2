package managedresource

import (
	"context"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/controllers/managedresource/dispatch"
	"github.com/trellis-hub/trellis/controllers/managedresource/objects"
	"github.com/trellis-hub/trellis/controllers/managedresource/source/assignment"
	"github.com/trellis-hub/trellis/controllers/managedresource/status"
	"github.com/trellis-hub/trellis/metrics"
)

// fetch reads the ManagedResource.
func (r *reconciler) fetch(ctx context.Context, s *scope) (bool, reconcile.Result, error) {
	mr, err := r.store.Get(ctx, s.Name)
	if err != nil {
		return end(err)
	}
	if mr == nil {
		r.forget(s)
		return end(nil)
	}
	s.MR = mr
	if mr.Annotations[resourcesv1alpha1.OperationAnnotation] == resourcesv1alpha1.OperationWaitForState {
		return end(nil)
	}
	return goOn()
}

// assign finds out under which class and in which target it is worked on. The run ends while a Gardener resource
// manager holds the namespace.
func (r *reconciler) assign(ctx context.Context, s *scope) (bool, reconcile.Result, error) {
	decision, err := r.assigner.Decide(ctx, s.MR)
	if err != nil {
		return end(err)
	}
	if decision.Class == nil {
		r.forget(s)
		return end(nil)
	}
	if decision.HasTarget && decision.Target != s.request.Target ||
		!decision.HasTarget && s.request.Target != (clustercache.ClusterKey{}) {
		// It moved since it was queued: it waits its turn among the requests of its new target.
		r.forward(decision, s.Name, dispatch.PriorityRetry)
		return end(nil)
	}
	s.Decision, s.Class, s.Target = decision, decision.Class, decision.Target
	s.drifted, s.changed = r.drifts.Stop(s.Name), r.changes.Stop(s.Name)
	s.Log = r.log.WithValues(
		"class", assignment.ClassName(s.Class.Name), "target", metrics.TargetName(s.Target),
		"managedResource", s.Name.String(),
	)
	status, _ := r.targets.Clusters.GetStatus(s.Target)
	if s.State.Rewinds != status.Rewinds {
		// The target went back in time. What its watches show decides now, as after a start.
		r.tracker.Unlearn(s.Name)
		r.warnings.Forget(s.Name)
		s.State.Forget()
		s.State.Rewinds = status.Rewinds
	}
	if s.Decision.ElsewhereUntil.IsZero() || s.Class.DryRun { // a dry run does not disturb the controller there
		return goOn()
	}
	r.forget(s)
	return endAfter(s.Decision.ElsewhereUntil.Sub(r.clock.Now()) + time.Second)
}

// pause ends the run while the operator stopped all work on the target. A deletion says that it waits for that. The
// conditions of others stay as they are: they remain true, and the TargetCluster reports the pause.
func (r *reconciler) pause(ctx context.Context, s *scope) (bool, reconcile.Result, error) {
	paused, err := r.targets.Paused(ctx, s.Target)
	if err != nil || !paused || s.NeedsNoTarget() {
		return err != nil, reconcile.Result{}, err
	}
	if !s.Goes() || !s.Marked() || s.BoundUID() == "" || s.Class.DryRun {
		return end(nil)
	}
	return end(r.status.Write(ctx, &s.Subject, func(d *status.Draft) {
		d.Deleting()
		d.Say(resourcesv1alpha1.ConditionResourcesApplied, resourcesv1alpha1.ConditionProgressing,
			resourcesv1alpha1.ReasonDeletionPending, waitsForPause(s, s.Target))
	}))
}

// avoidManager asks the source itself whether a Gardener resource manager holds the namespace, before anything is ours:
// one that has just come must not meet us.
func (r *reconciler) avoidManager(ctx context.Context, s *scope) (bool, reconcile.Result, error) {
	if s.BoundUID() != "" {
		return goOn()
	}
	until, err := r.assigner.ManagedElsewhereNow(ctx, r.content.Live, s.Class, s.Name.Namespace)
	if err != nil || until.IsZero() {
		return err != nil, reconcile.Result{}, err
	}
	r.forget(s)
	return endAfter(until.Sub(r.clock.Now()) + time.Second)
}

// takeOperation takes the annotation off that asks for an apply. From here on the ManagedResource may be written to.
func (r *reconciler) takeOperation(ctx context.Context, s *scope) (bool, reconcile.Result, error) {
	if s.MR.Annotations[resourcesv1alpha1.OperationAnnotation] != resourcesv1alpha1.OperationReconcile {
		return goOn()
	}
	base := s.MR.DeepCopy()
	delete(s.MR.Annotations, resourcesv1alpha1.OperationAnnotation)
	if err := r.store.Patch(ctx, base, s.MR, false); err != nil {
		return end(client.IgnoreNotFound(err))
	}
	s.State.Demanded = true
	return goOn()
}

// ignore ends the run of a ManagedResource that is to be ignored, or that waits for another instance to finish.
func (r *reconciler) ignore(ctx context.Context, s *scope) (bool, reconcile.Result, error) {
	switch deleting := s.MR.DeletionTimestamp != nil; {
	case resourcesv1alpha1.IsTruthy(s.MR.Annotations[resourcesv1alpha1.IgnoreAnnotation]) && !deleting:
		r.tracker.Forget(s.Name)
		s.State.Keep("", nil)
		return end(r.status.Write(ctx, &s.Subject, (*status.Draft).Ignored))
	case s.Decision.AwaitFinalizer != "" && !s.Goes():
		s.Log.V(1).Info("Waiting for another instance to finish", "finalizer", s.Decision.AwaitFinalizer)
		return end(nil)
	}
	return goOn()
}

// dryRun reports what a run would do, and ends it, if the class is a dry run.
func (r *reconciler) dryRun(ctx context.Context, s *scope) (bool, reconcile.Result, error) {
	if !s.Class.DryRun {
		return goOn()
	}
	report, err := (&objects.Previewer{
		Content: r.content, Targets: r.targets, Objects: r.objects, Neighbours: r.neighbours,
	}).Preview(ctx, &s.Subject)
	if report != nil {
		r.dryRuns.Set(s.Name, s.Target, *report)
	}
	return endWith(s.resync(), err)
}
