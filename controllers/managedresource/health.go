package managedresource

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/controllers/managedresource/observe/conditions"
	"github.com/trellis-hub/trellis/controllers/managedresource/observe/view"
	"github.com/trellis-hub/trellis/controllers/managedresource/run"
	"github.com/trellis-hub/trellis/controllers/managedresource/source/content"
	"github.com/trellis-hub/trellis/controllers/managedresource/status"
)

// health says in the conditions what the watches show. It sends nothing to a target. It goes by the verdict of the
// scope.
type health struct {
	targets *targets
	viewer  *view.Viewer
	status  *status.Writer
}

// evaluate writes what the watches say about health and progress, if a condition changes.
func (h *health) evaluate(ctx context.Context, s *scope) (reconcile.Result, error) {
	if s.status.State != clustercache.StateConnected {
		return h.unreachable(ctx, s)
	}
	return h.evaluateWith(ctx, s, func(*status.Draft) {})
}

// evaluateApplied is evaluate for a ManagedResource that is known to be applied, whatever its condition said in the
// meantime: that it had no target, or was ignored.
func (h *health) evaluateApplied(ctx context.Context, s *scope) (reconcile.Result, error) {
	if h.viewer.Tracker.TakeDone(s.Name) {
		s.State.NoteDue = s.Clock.Now().Add(status.NoteDelay) // or a restart would run a Job again that is done
	}
	if status.AppliedTrue(s.MR) && len(s.State.Yields) == 0 {
		return h.evaluate(ctx, s)
	}
	return h.evaluateWith(ctx, s, func(d *status.Draft) {
		run := conditions.Run{Yielded: s.State.Yields}
		d.Set(resourcesv1alpha1.ConditionResourcesApplied, run.Applied())
	})
}

func (h *health) evaluateWith(ctx context.Context, s *scope, change func(*status.Draft)) (reconcile.Result, error) {
	wait, err := h.status.WriteHealth(ctx, &s.Subject, func(d *status.Draft) {
		change(d)
		h.assess(ctx, d, s)
	})
	result := s.settled()
	if wait > 0 {
		result = run.Sooner(result, wait)
	}
	return result, err
}

// awaitLists waits for watches that have not listed yet, after a start with nothing in memory. The run continues if
// there is nothing to wait for: an object is missing already, or it took too long.
func (h *health) awaitLists(ctx context.Context, s *scope) (bool, reconcile.Result, error) {
	now := s.Clock.Now()
	// A target that was away lists from when it is back.
	waited := min(s.State.Waited(now), max(now.Sub(s.status.Since), 0))
	switch {
	case waited < syncGrace:
		return endAfter(syncGrace - waited)
	case waited >= listGrace, slices.ContainsFunc(s.compared.Missing, mayNotBeDone):
		return goOn()
	case waited < startGrace:
		return endAfter(syncGrace)
	}
	result, err := h.evaluate(ctx, s)
	return endWith(run.Sooner(result, syncGrace), err)
}

// unreachable says that the target cannot be asked. Nothing is said about a target that was not dialled yet, that may
// be back in a moment, or that is meant to be away.
func (h *health) unreachable(ctx context.Context, s *scope) (reconcile.Result, error) {
	switch s.status.State {
	case clustercache.StateConnecting, clustercache.StateConnected, clustercache.StateHibernated:
		return reconcile.Result{}, nil
	}
	if s.status.InGrace || h.targets.hibernated(ctx, s.Target) {
		return reconcile.Result{}, nil
	}
	return h.status.WriteOutage(ctx, &s.Subject, func(d *status.Draft) { d.Unreachable(s.Target, s.status) })
}

// notApplied says why nothing can be applied, whether or not there is a target at the moment.
func (h *health) notApplied(ctx context.Context, s *scope, reason, message string) error {
	return h.status.Write(ctx, &s.Subject, func(d *status.Draft) {
		d.Say(resourcesv1alpha1.ConditionResourcesApplied, resourcesv1alpha1.ConditionFalse, reason, message)
		if h.askable(ctx, d, s) {
			d.AnswersAgain()
		}
	})
}

// cannotRead reports what is wrong with the content as a whole. A missing Secret is read after its event; other
// failures are retried.
func (h *health) cannotRead(ctx context.Context, s *scope, c *content.Reader, err error) (reconcile.Result, error) {
	if large := (*content.TooLargeError)(nil); errors.As(err, &large) {
		input, _ := c.Input(&s.Subject)
		return s.fail(input), h.notApplied(ctx, s, large.Reason, large.Message)
	}
	if err := h.notApplied(ctx, s, resourcesv1alpha1.ReasonCannotReadSecret, err.Error()); err != nil {
		return reconcile.Result{}, err
	}
	if secret := (*content.SecretError)(nil); errors.As(err, &secret) {
		if version, known := c.Secrets.Get(secret.Secret); known && !version.Exists() {
			return reconcile.Result{}, nil
		}
	}
	return s.fail(err.Error()), nil
}

// concludeLost notes what is owned after a run whose target went away. The connect event brings the ManagedResource
// back; the timer is for a target that was only about to go.
func (h *health) concludeLost(
	ctx context.Context, s *scope, inv []resourcesv1alpha1.ObjectReference,
) (reconcile.Result, error) {
	err := h.status.Write(ctx, &s.Subject, func(d *status.Draft) {
		d.Resources = inv
		h.askable(ctx, d, s) // health is not judged: it is unknown what was written
	})
	return reconcile.Result{RequeueAfter: retryLost}, err
}

// awaitsConnection says that the objects are left alone until the registration leads somewhere again.
func (h *health) awaitsConnection(ctx context.Context, s *scope) error {
	if s.status.PendingReason == "" {
		return nil // it is being connected
	}
	message := fmt.Sprintf(
		"The present content of the registration of the target cluster %s cannot be used (%s), and its "+
			"former connection leads to another cluster than the one that has the objects. They stay where they are.",
		s.Target, s.status.PendingReason)
	return h.status.Write(ctx, &s.Subject, func(d *status.Draft) {
		d.UnknownHealth(resourcesv1alpha1.ReasonTargetUnreachable, message)
	})
}

// assess sets ResourcesHealthy and ResourcesProgressing from what was observed. Until the watches have shown the last
// write of every object, they stay as they are: nothing is claimed that was not seen.
func (h *health) assess(ctx context.Context, d *status.Draft, s *scope) {
	snapshot := h.snapshot(ctx, d, s)
	if snapshot == nil {
		return
	}
	if c, known := snapshot.Healthy(); known {
		setAssessed(d, resourcesv1alpha1.ConditionResourcesHealthy, resourcesv1alpha1.ConditionTrue, c, s.partial)
	}
	if c, known := snapshot.Rollout(); known {
		setAssessed(d, resourcesv1alpha1.ConditionResourcesProgressing, resourcesv1alpha1.ConditionFalse, c, s.partial)
	}
}

const messagePartial = "Some objects are not applied; their checks are pending. Nothing is wrong with the others."

// setAssessed sets a condition about health. While some objects are not applied, what is wrong with the others is said,
// but not that all is well: that is unknown of the rest. What was said to be well before they failed stays so, as H-3
// has it.
func setAssessed(d *status.Draft, t resourcesv1alpha1.ConditionType, good resourcesv1alpha1.ConditionStatus,
	c conditions.Condition, partial bool) {
	if partial && c.Status == good {
		if before := d.Get(t); before != nil && before.Status == good {
			return
		}
		c = conditions.Condition{
			Status: resourcesv1alpha1.ConditionUnknown, Reason: resourcesv1alpha1.ReasonChecksPending, Message: messagePartial,
		}
	}
	d.Set(t, c)
}

// assessFailure is for a run that failed, before it says so: unless it is for objects that could not be applied, health
// is not judged from then on, and what it found to be wrong must not be left to read as healthy.
func (h *health) assessFailure(ctx context.Context, d *status.Draft, s *scope) {
	if snapshot := h.snapshot(ctx, d, s); snapshot != nil {
		if c, known := snapshot.Healthy(); known && c.Status == resourcesv1alpha1.ConditionFalse {
			d.Set(resourcesv1alpha1.ConditionResourcesHealthy, c)
		}
	}
}

// snapshot returns what the watches show of the objects of a ManagedResource; nil if its health is not to be judged.
func (h *health) snapshot(ctx context.Context, d *status.Draft, s *scope) *conditions.Snapshot {
	if !h.askable(ctx, d, s) {
		return nil
	}
	subject := view.Subject{
		ManagedResource: s.Name, Cluster: s.Target, Resources: d.Resources, Comparison: s.compared,
		Late: func(blind bool) bool { return s.State.BlindFor(blind, d.Now) >= syncGrace },
	}
	s.partial = false
	switch c := d.Get(resourcesv1alpha1.ConditionResourcesApplied); {
	case c == nil:
		d.AnswersAgain()
		return nil
	case c.Status == resourcesv1alpha1.ConditionTrue:
		subject.Applied = true
	case c.Reason == resourcesv1alpha1.ReasonDecodingFailed, c.Reason == resourcesv1alpha1.ReasonOwnedByOther:
	case c.Status == resourcesv1alpha1.ConditionFalse && c.Reason == resourcesv1alpha1.ReasonApplyFailed:
		d.AnswersAgain()
		s.partial, subject.Partial, subject.Resources = true, true, onceApplied(d.Resources)
		if len(subject.Resources) == 0 {
			return nil
		}
	default:
		d.AnswersAgain()
		return nil // only what was applied is assessed
	}
	seen := h.viewer.Collect(subject)
	s.unjudged, s.explained, d.Reading = seen.Unjudged, len(seen.Explained) > 0, seen.Reading
	return &seen.Snapshot
}

// onceApplied are the entries of objects that were applied, if not as they should be now. Others may never have been
// created.
func onceApplied(refs []resourcesv1alpha1.ObjectReference) []resourcesv1alpha1.ObjectReference {
	return slices.DeleteFunc(slices.Clone(refs), func(ref resourcesv1alpha1.ObjectReference) bool { return ref.UID == "" })
}

// askable reports whether the target can be asked about the objects. If it cannot although it should, it sets the
// conditions. Those of a target that is meant to be away stay as they are, as soon as that is said and until it is
// over: its nodes go before its API server does, and come after it.
func (h *health) askable(ctx context.Context, d *status.Draft, s *scope) bool {
	status, registered := h.targets.clusters.GetStatus(s.Target) // the one that a run began with may be over
	switch {
	case !registered, h.targets.hibernated(ctx, s.Target), status.InGrace,
		status.State == clustercache.StateConnecting, status.State == clustercache.StateHibernated:
		return false
	case status.State != clustercache.StateConnected:
		d.Unreachable(s.Target, status)
		return false
	}
	return status.UID == s.BoundUID()
}
