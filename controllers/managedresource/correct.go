package managedresource

import (
	"context"
	"errors"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/controllers/managedresource/dispatch"
	"github.com/trellis-hub/trellis/controllers/managedresource/observe/conditions"
	"github.com/trellis-hub/trellis/controllers/managedresource/run"
	"github.com/trellis-hub/trellis/controllers/managedresource/status"
	"github.com/trellis-hub/trellis/controllers/managedresource/telemetry"
	"github.com/trellis-hub/trellis/engine/apply"
	"github.com/trellis-hub/trellis/engine/inventory"
)

// correct brings the objects that drifted back to what the ManagedResource says, and ends the run.
func (r *reconciler) correct(ctx context.Context, s *scope) (bool, reconcile.Result, error) {
	if len(s.todo) == 0 {
		return goOn()
	}
	// Every attempt counts, those with nothing to do included: an object that is going, or one that is only kept because
	// the bundle is incomplete, would otherwise be looked at again and again.
	now := r.clock.Now()
	for _, key := range s.todo {
		s.State.Corrected(key, now)
	}
	r.objects.NoteAutoscalers(ctx, &s.Subject, s.Access, s.plan.Prepared(s.todo...), true)
	accepted, _ := r.tracker.AcceptedStates(s.Name) // Begin forgets those that left the selection
	r.tracker.Begin(s.Name, s.todo...)
	defer r.tracker.End(s.Name) // after a panic, too
	found := r.objects.Examine(ctx, r.neighbours.Of(ctx, &s.Subject), s.plan, s.todo, accepted)
	if found.Wait > 0 {
		s.waitAtMost(found.Wait)
	}
	var outcomes []apply.Outcome
	if len(found.Drifts) > 0 {
		todo := make([]apply.Intent, 0, len(found.Drifts))
		for _, d := range found.Drifts {
			todo = append(todo, d.Intent)
		}
		outcomes = r.objects.Apply(ctx, &s.Subject, todo)
	}
	r.tracker.End(s.Name)
	if err := ctx.Err(); err != nil {
		return end(err)
	}
	return endWith(r.concludeCorrection(ctx, s, found.Drifts, append(outcomes, found.Unread...)))
}

// waitAtMost has another look at drift come after some time at the latest.
func (s *scope) waitAtMost(wait time.Duration) {
	if s.wait == 0 || wait < s.wait {
		s.wait = wait
	}
}

// concludeCorrection writes the result of a correction. The first outcomes are those of the drifts. The conditions stay
// unless it failed.
func (r *reconciler) concludeCorrection(
	ctx context.Context, s *scope, drifts []telemetry.Drift, outcomes []apply.Outcome,
) (reconcile.Result, error) {
	now := r.clock.Now() // the correction took time
	uids := map[inventory.Key]types.UID{}
	for i, o := range outcomes {
		if o.Err != nil {
			continue
		}
		uids[o.Key] = o.UID
		if drifts[i].Created || len(drifts[i].By) > 0 {
			r.events.Corrected(s.MR, drifts[i])
			s.State.Fought(o.Key, drifts[i].Who(), now)
			r.metrics.Corrected(&s.Subject, drifts[i], now)
			s.Log.Info("Corrected drift", "object", o.Key.String(), "recreated", drifts[i].Created, "changedBy", drifts[i].Who())
		}
	}
	failures := apply.Failures(outcomes)
	if r.targets.Lost(ctx, &s.Subject, failures, nil) {
		return r.health.concludeLost(ctx, s, withUIDs(s.MR.Status.Resources, uids))
	}
	switch { // what could not be corrected is measured on
	case len(failures) > 0:
		r.drifts.Resume(s.Name, s.drifted)
	case len(uids) > 0 && !s.drifted.IsZero():
		r.metrics.DriftLasted(&s.Subject, now.Sub(s.drifted))
	}
	failures = slices.DeleteFunc(failures, func(o apply.Outcome) bool { return errors.Is(o.Err, apply.ErrTerminating) })
	result := conditions.Run{Failures: failures, Yielded: s.State.Yields}
	c := result.Applied()
	// What the last attempt at everything found stands until the next one: this run looked at some of it only.
	reason := status.AppliedReason(s.MR)
	concerned := len(failures) > 0 && reason != resourcesv1alpha1.ReasonApplyFailed || status.AppliedTrue(s.MR) ||
		reason == resourcesv1alpha1.ReasonOwnedByOther
	s.seen.Compared = r.tracker.Judge(s.Name)
	err := r.status.Write(ctx, &s.Subject, func(d *status.Draft) {
		d.Resources = withUIDs(d.Resources, uids)
		if len(failures) > 0 {
			r.assessor.AssessFailure(ctx, d, &s.Subject, &s.seen)
		}
		if concerned {
			d.Set(resourcesv1alpha1.ConditionResourcesApplied, c)
		}
		r.assessor.Assess(ctx, d, &s.Subject, &s.seen)
	})
	if err != nil {
		return reconcile.Result{}, err
	}
	if concerned {
		r.events.Applied(s.MR, s.State.Last, c)
		s.State.Last = &c
	}
	if len(failures) > 0 {
		if err := r.notes.TakeBack(ctx, &s.Subject, s.input); err != nil {
			return reconcile.Result{}, err
		}
		return s.afterFailedCorrection(now, failures), nil
	}
	switch {
	case status.AppliedTrue(s.MR):
		err = r.notes.Write(ctx, &s.Subject, s.input)
	case status.AppliedReason(s.MR) == resourcesv1alpha1.ReasonOwnedByOther:
		err = r.notes.TakeBack(ctx, &s.Subject, s.input) // a restart has to find out the owners again
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	// What drifted again meanwhile is looked at when its turn comes.
	for _, key := range slices.Concat(s.seen.Compared.Drifted, s.seen.Compared.Missing) {
		s.waitAtMost(s.correctable(key, now))
	}
	if s.wait > 0 {
		return reconcile.Result{RequeueAfter: s.wait, Priority: new(dispatch.PriorityDrift)}, nil
	}
	return s.settled(), nil
}

// afterFailedCorrection is the result of a correction that failed. The pause after another failure gets no longer by
// it, and those that failed are tried again at their own pace: what else fails may have to wait for minutes.
func (s *scope) afterFailedCorrection(now time.Time, failures []apply.Outcome) reconcile.Result {
	var result reconcile.Result
	if rest := s.State.Backoff(s.input, now); rest > 0 {
		result = reconcile.Result{RequeueAfter: rest, Priority: new(dispatch.PriorityRetry)}
	} else {
		result = s.fail(s.input)
	}
	if s.wait > 0 {
		result = run.ForDrift(result, s.wait)
	}
	for _, o := range failures {
		result = run.ForDrift(result, max(s.State.MayCorrect(o.Key, now), run.RetryFirst))
	}
	return s.withDrift(result, failures...)
}

// withUIDs returns an inventory with the UIDs of objects that were created again.
func withUIDs(
	refs []resourcesv1alpha1.ObjectReference, uids map[inventory.Key]types.UID,
) []resourcesv1alpha1.ObjectReference {
	refs = slices.Clone(refs)
	for i := range refs {
		if uid, ok := uids[inventory.KeyOf(refs[i])]; ok {
			refs[i].UID = uid
		}
	}
	return refs
}
