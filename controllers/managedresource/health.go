package managedresource

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/controllers/managedresource/objects"
	"github.com/trellis-hub/trellis/controllers/managedresource/observe/conditions"
	"github.com/trellis-hub/trellis/controllers/managedresource/observe/tracker"
	"github.com/trellis-hub/trellis/controllers/managedresource/run"
	"github.com/trellis-hub/trellis/controllers/managedresource/source/content"
	"github.com/trellis-hub/trellis/controllers/managedresource/status"
)

// health writes what the assessor finds, and why health cannot be judged. It sends nothing to a target.
type health struct {
	tracker  *tracker.Tracker
	targets  *objects.Targets
	status   *status.Writer
	assessor *status.Assessor
}

// evaluate writes what the watches say about health and progress, if a condition changes.
func (h *health) evaluate(ctx context.Context, s *scope) (reconcile.Result, error) {
	if s.targetStatus.State != clustercache.StateConnected {
		return h.unreachable(ctx, s)
	}
	return h.evaluateWith(ctx, s, func(*status.Draft) {})
}

// evaluateApplied is evaluate for a ManagedResource that is known to be applied, whatever its condition said in the
// meantime: that it had no target, or was ignored.
func (h *health) evaluateApplied(ctx context.Context, s *scope) (reconcile.Result, error) {
	if h.tracker.TakeDone(s.Name) {
		s.State.NoteDue = s.Clock.Now().Add(status.NoteDelay) // or a restart would run a Job again that is done
	}
	if status.AppliedTrue(s.MR) && len(s.State.Yields) == 0 {
		return h.evaluate(ctx, s)
	}
	return h.evaluateWith(ctx, s, func(d *status.Draft) {
		result := conditions.Run{Yielded: s.State.Yields}
		d.Set(resourcesv1alpha1.ConditionResourcesApplied, result.Applied())
	})
}

func (h *health) evaluateWith(ctx context.Context, s *scope, change func(*status.Draft)) (reconcile.Result, error) {
	wait, err := h.status.WriteHealth(ctx, &s.Subject, func(d *status.Draft) {
		change(d)
		h.assessor.Assess(ctx, d, &s.Subject, &s.seen)
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
	waited := min(s.State.Waited(now), max(now.Sub(s.targetStatus.Since), 0))
	switch {
	case waited < status.SyncGrace:
		return endAfter(status.SyncGrace - waited)
	case waited >= listGrace, slices.ContainsFunc(s.seen.Compared.Missing, mayNotBeDone):
		return goOn()
	case waited < startGrace:
		return endAfter(status.SyncGrace)
	}
	result, err := h.evaluate(ctx, s)
	return endWith(run.Sooner(result, status.SyncGrace), err)
}

// unreachable says that the target cannot be asked. Nothing is said about a target that was not dialled yet, that may
// be back in a moment, or that is meant to be away.
func (h *health) unreachable(ctx context.Context, s *scope) (reconcile.Result, error) {
	switch s.targetStatus.State {
	case clustercache.StateConnecting, clustercache.StateConnected, clustercache.StateHibernated:
		return reconcile.Result{}, nil
	}
	if s.targetStatus.InGrace || h.targets.Hibernated(ctx, s.Target) {
		return reconcile.Result{}, nil
	}
	return h.status.WriteOutage(ctx, &s.Subject, func(d *status.Draft) { d.Unreachable(s.Target, s.targetStatus) })
}

// notApplied says why nothing can be applied, whether or not there is a target at the moment.
func (h *health) notApplied(ctx context.Context, s *scope, reason, message string) error {
	return h.status.Write(ctx, &s.Subject, func(d *status.Draft) {
		d.Say(resourcesv1alpha1.ConditionResourcesApplied, resourcesv1alpha1.ConditionFalse, reason, message)
		if h.assessor.Askable(ctx, d, &s.Subject) {
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
		h.assessor.Askable(ctx, d, &s.Subject) // health is not judged: it is unknown what was written
	})
	return reconcile.Result{RequeueAfter: retryLost}, err
}

// awaitsConnection says that the objects are left alone until the registration leads somewhere again.
func (h *health) awaitsConnection(ctx context.Context, s *scope) error {
	if s.targetStatus.PendingReason == "" {
		return nil // it is being connected
	}
	message := fmt.Sprintf(
		"The present content of the registration of the target cluster %s cannot be used (%s), and its "+
			"former connection leads to another cluster than the one that has the objects. They stay where they are.",
		s.Target, s.targetStatus.PendingReason)
	return h.status.Write(ctx, &s.Subject, func(d *status.Draft) {
		d.UnknownHealth(resourcesv1alpha1.ReasonTargetUnreachable, message)
	})
}
