package managedresource

import (
	"context"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/controllers/managedresource/dispatch"
	"github.com/trellis-hub/trellis/controllers/managedresource/source/assignment"
	"github.com/trellis-hub/trellis/metrics"
)

// fetch reads the ManagedResource.
func (r *reconciler) fetch(ctx context.Context, s *scope) (bool, reconcile.Result, error) {
	mr, err := r.store.Get(ctx, s.name)
	if err != nil {
		return end(err)
	}
	if mr == nil {
		r.forget(s)
		return end(nil)
	}
	s.mr = mr
	if mr.Annotations[resourcesv1alpha1.OperationAnnotation] == resourcesv1alpha1.OperationWaitForState {
		return end(nil)
	}
	return goOn()
}

// assign finds out under which class and in which target it is worked on. The run ends while a Gardener resource
// manager holds the namespace.
func (r *reconciler) assign(ctx context.Context, s *scope) (bool, reconcile.Result, error) {
	decision, err := r.assigner.Decide(ctx, s.mr)
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
		r.forward(decision, s.name, dispatch.PriorityRetry)
		return end(nil)
	}
	s.decision, s.class, s.target = decision, decision.Class, decision.Target
	s.drifted, s.changed = r.drifts.stop(s.name), r.changes.stop(s.name)
	s.log = r.log.WithValues(
		"class", assignment.ClassName(s.class.Name), "target", metrics.TargetName(s.target),
		"managedResource", s.name.String(),
	)
	status, _ := r.targets.clusters.GetStatus(s.target)
	if s.state.rewinds != status.Rewinds {
		// The target went back in time. What its watches show decides now, as after a start.
		r.tracker.Unlearn(s.name)
		r.warnings.Forget(s.name)
		s.state.forget()
		s.state.rewinds = status.Rewinds
	}
	if s.decision.ElsewhereUntil.IsZero() || s.class.DryRun { // a dry run does not disturb the controller there
		return goOn()
	}
	r.forget(s)
	return endAfter(s.decision.ElsewhereUntil.Sub(r.clock.Now()) + time.Second)
}

// pause ends the run while the operator stopped all work on the target. A deletion says that it waits for that. The
// conditions of others stay as they are: they remain true, and the TargetCluster reports the pause.
func (r *reconciler) pause(ctx context.Context, s *scope) (bool, reconcile.Result, error) {
	paused, err := r.targets.paused(ctx, s.target)
	if err != nil || !paused || s.needsNoTarget() {
		return err != nil, reconcile.Result{}, err
	}
	if !s.goes() || !s.marked() || s.boundUID() == "" || s.class.DryRun {
		return end(nil)
	}
	return end(r.status.write(ctx, &s.subject, func(d *draft) {
		d.deleting()
		d.say(resourcesv1alpha1.ConditionResourcesApplied, resourcesv1alpha1.ConditionProgressing,
			resourcesv1alpha1.ReasonDeletionPending, waitsForPause(s, s.target))
	}))
}

// avoidManager asks the source itself whether a Gardener resource manager holds the namespace, before anything is ours:
// one that has just come must not meet us.
func (r *reconciler) avoidManager(ctx context.Context, s *scope) (bool, reconcile.Result, error) {
	if s.boundUID() != "" {
		return goOn()
	}
	until, err := r.assigner.ManagedElsewhereNow(ctx, r.content.live, s.class, s.name.Namespace)
	if err != nil || until.IsZero() {
		return err != nil, reconcile.Result{}, err
	}
	r.forget(s)
	return endAfter(until.Sub(r.clock.Now()) + time.Second)
}

// takeOperation takes the annotation off that asks for an apply. From here on the ManagedResource may be written to.
func (r *reconciler) takeOperation(ctx context.Context, s *scope) (bool, reconcile.Result, error) {
	if s.mr.Annotations[resourcesv1alpha1.OperationAnnotation] != resourcesv1alpha1.OperationReconcile {
		return goOn()
	}
	base := s.mr.DeepCopy()
	delete(s.mr.Annotations, resourcesv1alpha1.OperationAnnotation)
	if err := r.store.Patch(ctx, base, s.mr, false); err != nil {
		return end(client.IgnoreNotFound(err))
	}
	s.state.demanded = true
	return goOn()
}

// ignore ends the run of a ManagedResource that is to be ignored, or that waits for another instance to finish.
func (r *reconciler) ignore(ctx context.Context, s *scope) (bool, reconcile.Result, error) {
	switch deleting := s.mr.DeletionTimestamp != nil; {
	case resourcesv1alpha1.IsTruthy(s.mr.Annotations[resourcesv1alpha1.IgnoreAnnotation]) && !deleting:
		r.tracker.Forget(s.name)
		s.state.keep("", nil)
		return end(r.status.write(ctx, &s.subject, (*draft).ignored))
	case s.decision.AwaitFinalizer != "" && !s.goes():
		s.log.V(1).Info("Waiting for another instance to finish", "finalizer", s.decision.AwaitFinalizer)
		return end(nil)
	}
	return goOn()
}

// dryRun reports what a run would do, and ends it, if the class is a dry run.
func (r *reconciler) dryRun(ctx context.Context, s *scope) (bool, reconcile.Result, error) {
	if !s.class.DryRun {
		return goOn()
	}
	report, err := (&previewer{r.content, r.targets, r.objects, r.neighbours}).preview(ctx, &s.subject)
	if report != nil {
		r.dryRuns.set(s.name, s.target, *report)
	}
	return endWith(s.resync(), err)
}
