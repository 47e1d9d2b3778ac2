package managedresource

import (
	"context"
	"errors"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/controllers/managedresource/dispatch"
	"github.com/trellis-hub/trellis/controllers/managedresource/objects"
	"github.com/trellis-hub/trellis/controllers/managedresource/observe/conditions"
	"github.com/trellis-hub/trellis/controllers/managedresource/run"
	"github.com/trellis-hub/trellis/controllers/managedresource/status"
	"github.com/trellis-hub/trellis/engine/apply"
	"github.com/trellis-hub/trellis/engine/inventory"
	"github.com/trellis-hub/trellis/engine/prune"
)

const (
	// shownPatience is how long a run waits for the watches to show what it wrote.
	shownPatience = 100 * time.Millisecond
	// retryLost is the pause after a run whose target went away. If it is away, the next run ends at once and waits for
	// events.
	retryLost = 2 * time.Second
)

// conclude reports and writes the result of a run of everything, and decides when the next one is.
func (r *reconciler) conclude(ctx context.Context, s *scope) (bool, reconcile.Result, error) {
	r.events.Report(&s.Subject, s.applied)
	r.events.WarnUnplaced(&s.Subject, s.bundle, s.applied)
	emptiedBy := func() string { return r.content.EmptiedBy(ctx, &s.Subject) }
	r.events.ReportPruned(&s.Subject, s.plan.PruneCause(), s.pruned, emptiedBy)
	inv, pending := s.inventoryAfter()
	failures := apply.Failures(s.applied)
	if r.targets.Lost(ctx, &s.Subject, failures, pending) {
		return endWith(r.health.concludeLost(ctx, s, inv))
	}
	result := conditions.Run{
		Faults: s.plan.Faults, Undecoded: s.plan.Decoding, Failures: failures, Pending: pending, Unreleased: s.kept,
		Yielded: s.State.Yields,
	}
	c := result.Applied()
	finished := c.Reason == resourcesv1alpha1.ReasonApplySucceeded ||
		c.Reason == resourcesv1alpha1.ReasonDecodingFailed || c.Reason == resourcesv1alpha1.ReasonOwnedByOther
	if err := r.tracker.Track(ctx, s.Name, s.Target, inv, objects.Exact(s.MR)); err != nil {
		return end(err)
	}
	if finished {
		r.tracker.AwaitShown(ctx, s.Name, shownPatience) // or else the health needs a write of its own right afterwards
	}
	r.lacks.Retry(&s.Subject, s.applied, r.enqueue)
	s.seen.Compared = r.tracker.Judge(s.Name)
	err := r.status.Write(ctx, &s.Subject, func(d *status.Draft) {
		d.Resources = inv
		if !finished {
			r.assessor.AssessFailure(ctx, d, &s.Subject, &s.seen)
		}
		d.Set(resourcesv1alpha1.ConditionResourcesApplied, c)
		if finished {
			d.ObservedGeneration = s.MR.Generation
			d.SecretsDataChecksum = ptr.To(s.plan.Checksum)
		}
		r.assessor.Assess(ctx, d, &s.Subject, &s.seen)
	})
	if err != nil {
		return end(err)
	}
	s.State.AppliedAll(r.clock.Now())
	s.State.Awaited = awaited(failures, pending)
	r.events.Applied(s.MR, s.State.Last, c)
	s.State.Last = &c
	if c.Reason != resourcesv1alpha1.ReasonApplySucceeded {
		return r.concludeFailure(ctx, s, c, failures, pending)
	}
	s.succeed(s.input)
	r.lacks.Set(s.Name, s.Target, false)
	if !s.changed.IsZero() {
		r.metrics.Of(s.Class.Name).Propagation.Observe(r.clock.Since(s.changed).Seconds())
		s.changed = time.Time{} // also if the run fails from here on
	}
	s.State.NoteDue = r.clock.Now().Add(status.NoteDelay)
	// Changes of the objects while they were written were recorded, but caused no run.
	if v := &s.seen.Compared; v.Synced && len(v.Drifted)+len(v.Missing)+len(v.Unknown) > 0 {
		return endWith(reconcile.Result{RequeueAfter: busyRetry, Priority: new(dispatch.PriorityDrift)}, nil)
	}
	return endWith(r.notes.WriteWhenDue(ctx, &s.Subject, s.input, s.settled()))
}

// concludeFailure decides when a run is repeated that did not succeed as a whole.
func (r *reconciler) concludeFailure(ctx context.Context, s *scope, c conditions.Condition, failures []apply.Outcome,
	pending []prune.Outcome) (bool, reconcile.Result, error) {
	r.changes.Resume(s.Name, s.changed) // it is not applied yet
	if err := r.notes.TakeBack(ctx, &s.Subject, s.input); err != nil {
		return end(err)
	}
	if c.Reason == resourcesv1alpha1.ReasonOwnedByOther && len(pending) == 0 {
		s.succeed(s.input) // what was left to others comes back by events
		r.lacks.Set(s.Name, s.Target, false)
		result := s.settled()
		if s.seen.Compared.Synced {
			for _, key := range s.seen.Compared.Missing { // or it does not
				result = run.ForDrift(result, s.correctable(key, r.clock.Now()))
			}
		}
		return endWith(result, nil)
	}
	result := s.fail(s.input)
	lacking := slices.ContainsFunc(failures, func(o apply.Outcome) bool { return conditions.Lacks(o.Err) })
	r.lacks.Set(s.Name, s.Target, lacking)
	result = s.withDrift(s.whenDue(result, pending), failures...)
	if r.objects.WentMeanwhile(&s.Subject, s.present, s.State.Awaited) {
		result = run.Sooner(result, busyRetry)
	}
	return endWith(result, nil)
}

// awaited are the objects that have to go before a run can succeed.
func awaited(failures []apply.Outcome, pending []prune.Outcome) map[inventory.Key]bool {
	out := map[inventory.Key]bool{}
	for _, o := range pending {
		out[o.Key] = true
	}
	for _, o := range failures {
		if errors.Is(o.Err, apply.ErrTerminating) {
			out[o.Key] = true
		}
	}
	return out
}

// inventoryAfter is what the ManagedResource owns after a run: what is desired, what could not be deleted yet, and what
// must not be given up because the bundle is incomplete. pending are the deletions that are not done.
func (s *scope) inventoryAfter() (inv []resourcesv1alpha1.ObjectReference, pending []prune.Outcome) {
	book := s.Book()
	wanted := sets.Set[inventory.Key]{}
	for i := range s.plan.Objects {
		wanted.Insert(inventory.KeyOf(s.plan.Objects[i].Entry))
	}
	for i := range s.plan.Objects {
		entry := s.plan.Objects[i].Entry
		if o := s.applied[i]; o.Err == nil {
			entry.UID = o.UID
		} else if same := book.Same(o.Key); len(same) > 0 {
			entry = *same[0] // not applied, so the merge base stays
			for _, ref := range same[1:] {
				if key := inventory.KeyOf(*ref); !wanted.Has(key) {
					wanted.Insert(key)
					inv = append(inv, *ref) // the object may exist under the old kind only
				}
			}
		}
		inv = append(inv, entry)
	}
	if s.plan.Complete() {
		for _, o := range s.pruned {
			if o.Result == prune.Pending {
				inv, pending = append(inv, o.Ref), append(pending, o)
			}
		}
	} else {
		inv = append(inv, s.old...)
	}
	for _, o := range s.released {
		if s.kept[inventory.KeyOf(o.Entry)] != nil {
			inv = append(inv, o.Entry)
		}
	}
	inventory.Sort(inv)
	return inv, pending
}

// whenDue makes the next attempt come when the first pending object may lose its finalizers, if that is sooner.
func (s *scope) whenDue(result reconcile.Result, pending []prune.Outcome) reconcile.Result {
	due := prune.Due(pending)
	if due.IsZero() {
		return result
	}
	s.State.RetryBy(due)
	return run.Sooner(result, max(due.Sub(s.Clock.Now()), busyRetry))
}
