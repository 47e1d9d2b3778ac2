package managedresource

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/controllers/managedresource/dispatch"
	"github.com/trellis-hub/trellis/controllers/managedresource/observe/conditions"
	"github.com/trellis-hub/trellis/controllers/managedresource/observe/tracker"
	"github.com/trellis-hub/trellis/engine/apply"
	"github.com/trellis-hub/trellis/engine/inventory"
	"github.com/trellis-hub/trellis/engine/ownership"
)

// drift is one object that is not as it was accepted, with what a look at it showed.
type drift struct {
	intent  apply.Intent
	entry   resourcesv1alpha1.ObjectReference
	created bool                // it is gone and will be created again
	by      []ownership.Foreign // which writers changed what, as far as known
	owner   string              // that it named when it went, as the watches showed
}

// correct brings the objects that drifted back to what the ManagedResource says, and ends the run.
func (r *reconciler) correct(ctx context.Context, s *scope) (bool, reconcile.Result, error) {
	if len(s.todo) == 0 {
		return goOn()
	}
	// Every attempt counts, those with nothing to do included: an object that is going, or one that is only kept because
	// the bundle is incomplete, would otherwise be looked at again and again.
	now := r.clock.Now()
	for _, key := range s.todo {
		s.state.corrected(key, now)
	}
	r.objects.noteAutoscalers(ctx, s, s.access, s.plan.prepared(s.todo...), true)
	accepted, _ := r.tracker.AcceptedStates(s.name) // Begin forgets those that left the selection
	r.tracker.Begin(s.name, s.todo...)
	defer r.tracker.End(s.name) // after a panic, too
	drifts, unread := r.objects.examine(ctx, r.neighbours.of(ctx, s), accepted)
	var outcomes []apply.Outcome
	if len(drifts) > 0 {
		todo := make([]apply.Intent, 0, len(drifts))
		for _, d := range drifts {
			todo = append(todo, d.intent)
		}
		outcomes = r.objects.apply(ctx, s, todo)
	}
	r.tracker.End(s.name)
	if err := ctx.Err(); err != nil {
		return end(err)
	}
	return endWith(r.concludeCorrection(ctx, s, drifts, append(outcomes, unread...)))
}

// examine reads the drifted objects live: whether they exist, and which writers changed them since they were accepted.
// Objects that turn out to be right, or to be those of another ManagedResource, are accepted as they are. unread are
// those that could not be looked at.
func (o *objects) examine(
	ctx context.Context, sh *sharers, accepted map[inventory.Key]tracker.Accepted,
) (drifts []drift, unread []apply.Outcome) {
	s, now := sh.scope, sh.scope.clock.Now()
	yields := s.state.yields
	if yields == nil {
		yields = map[inventory.Key]types.NamespacedName{}
	}
	defer func() { s.state.yield(yields) }() // what cannot be looked at stays whose it was
	known := inventory.Index(s.mr.Status.Resources)
	planned := make(map[inventory.Key]*apply.Prepared, len(s.plan.objects))
	for i := range s.plan.objects {
		planned[s.plan.objects[i].Key] = &s.plan.objects[i]
	}
	var todo []apply.Intent
	for _, key := range s.todo {
		if planned[key] != nil && known[key] != nil { // else on its way out, or kept because the bundle is incomplete
			todo = append(todo, planned[key].Intent)
		}
	}
	for i, head := range o.heads(ctx, s.access, todo) {
		key, live := todo[i].Key, head.live
		prepared, ref := planned[key], known[key]
		_, yielded := yields[key]
		d := drift{intent: prepared.Intent, entry: prepared.Entry}
		d.intent.Base = apply.BaseOf(ref)
		was, ok := accepted[key]
		switch {
		case head.absent():
			if yielded && len(sh.owners(key)) > 0 {
				if left := s.state.leaveTo(key, now); left > 0 {
					s.waitAtMost(left)
					continue
				}
			}
			delete(yields, key)
			d.created, d.intent.UID, d.owner = true, "", o.tracker.OwnerOf(s.name, key)
		case head.err != nil:
			unread = append(unread, apply.Outcome{Key: key, Err: fmt.Errorf("reading the live object: %w", head.err)})
			continue
		case live.DeletionTimestamp != nil:
			continue // its delete event brings us back
		case o.yieldTo(sh, key, live, yields):
			continue
		case d.intent.CreateOnly:
			o.tracker.Accept(s.name, key, tracker.Accepted{UID: live.UID, ResourceVersion: live.ResourceVersion})
			continue
		default:
			manager := o.applier.FieldManager
			d.intent.UID = live.UID
			d.created = ref.UID != "" && ref.UID != live.UID && live.Annotations[resourcesv1alpha1.OriginAnnotation] == ""
			// After a start it is not known what was applied last, but that it was this.
			d.intent.Same = ok && was.UID == live.UID && (was.Intent == prepared.Digest || was.Intent == 0 && !yielded)
			if ok && isUndisturbed(live, manager, prepared, was, exact(s.mr)) {
				s.state.undisturbed(key, now)
				o.tracker.Accept(s.name, key, tracker.Accepted{
					UID: live.UID, ResourceVersion: live.ResourceVersion, State: ownership.Observe(live, manager),
					Autoscaled: was.Autoscaled, Intent: was.Intent,
				})
				continue
			}
			d.by = blame(live, manager, prepared)
			if len(d.by) == 0 && ok && !yielded {
				d.by = removed(live, manager, prepared, was)
			}
		}
		drifts = append(drifts, d)
	}
	return drifts, unread
}

// waitAtMost has another look at drift come after some time at the latest.
func (s *scope) waitAtMost(wait time.Duration) {
	if s.wait == 0 || wait < s.wait {
		s.wait = wait
	}
}

// yieldTo accepts an object that belongs to another ManagedResource, and notes to which.
func (o *objects) yieldTo(sh *sharers, key inventory.Key, live *metav1.PartialObjectMetadata,
	yields map[inventory.Key]types.NamespacedName) bool {
	owner, owned := sh.ownerOf(key, live)
	if !owned {
		delete(yields, key)
		return false
	}
	yields[key] = owner
	o.acceptForeign(sh.scope, key, live)
	return true
}

// isUndisturbed reports whether an object that differs from its accepted state does so only in fields that others may
// write. The watches do not show that: which fields these are depends on the manifest.
func isUndisturbed(live *metav1.PartialObjectMetadata, manager string, prepared *apply.Prepared,
	was tracker.Accepted, exact tracker.Exact) bool {
	record := ownership.Read(live, manager)
	if record.Owned() == nil || was.UID != live.UID || was.Intent != prepared.Digest ||
		was.Autoscaled != prepared.Autoscaled {
		return false
	}
	before, now := was.State, record.State().Within(exact.Labels, exact.Annotations)
	before.Foreign, now.Foreign = 0, 0
	foreign, err := record.Foreign(prepared.Exempt())
	return err == nil && len(foreign) == 0 && before == now
}

// blame lists the writers that own fields that are ours to set, or added payload beside them.
func blame(live *metav1.PartialObjectMetadata, manager string, prepared *apply.Prepared) []ownership.Foreign {
	by := ownership.LostTo(live, manager, toBeOurs(prepared), prepared.Kept())
	if added, err := ownership.ForeignPayload(live, manager, prepared.Exempt()); err == nil {
		by = append(by, added...)
	}
	return by
}

// removed returns our fields that an object lacks although no other writer owns any of them: a writer that removes a
// field does not own it afterwards. Nil: none.
func removed(live *metav1.PartialObjectMetadata, manager string, prepared *apply.Prepared,
	was tracker.Accepted) []ownership.Foreign {
	record := ownership.Read(live, manager)
	sameIntent := was.Intent == prepared.Digest || was.Intent == 0 // the latter after a restart
	if record.Owned() == nil || was.UID != live.UID || !sameIntent || was.State.Own == record.State().Own {
		return nil
	}
	if taken := ownership.LostTo(live, manager, toBeOurs(prepared), nil); len(taken) > 0 {
		return nil // another writer owns them, and its values count
	}
	gone := record.Gone(toBeOurs(prepared), prepared.Kept())
	if gone.Empty() {
		return nil
	}
	return []ownership.Foreign{{Fields: gone}}
}

// toBeOurs are the fields that no other writer may change: those of the manifest, but for what counts at creation only,
// and the owner references, of which there are to be none but the manifest's.
func toBeOurs(prepared *apply.Prepared) *fieldpath.Set {
	finalizers := fieldpath.NewSet(fieldpath.MakePathOrDie("metadata", "finalizers"))
	set := ownership.Fields(prepared.Object.Object).Difference(finalizers)
	set.Insert(fieldpath.MakePathOrDie("metadata", "ownerReferences"))
	return set
}

// concludeCorrection writes the result of a correction. The first outcomes are those of the drifts. The conditions stay
// unless it failed.
func (r *reconciler) concludeCorrection(
	ctx context.Context, s *scope, drifts []drift, outcomes []apply.Outcome,
) (reconcile.Result, error) {
	now := r.clock.Now() // the correction took time
	uids := map[inventory.Key]types.UID{}
	for i, o := range outcomes {
		if o.Err != nil {
			continue
		}
		uids[o.Key] = o.UID
		if drifts[i].created || len(drifts[i].by) > 0 {
			r.events.corrected(s.mr, drifts[i])
			s.state.fought(o.Key, drifts[i].who(), now)
			r.metrics.corrected(s, drifts[i], now)
			s.log.Info("Corrected drift", "object", o.Key.String(), "recreated", drifts[i].created, "changedBy", drifts[i].who())
		}
	}
	failures := apply.Failures(outcomes)
	if r.targets.lost(ctx, s, failures, nil) {
		return r.health.concludeLost(ctx, s, withUIDs(s.mr.Status.Resources, uids))
	}
	switch { // what could not be corrected is measured on
	case len(failures) > 0:
		r.drifts.resume(s.name, s.drifted)
	case len(uids) > 0 && !s.drifted.IsZero():
		r.metrics.driftLasted(s, now.Sub(s.drifted))
	}
	failures = slices.DeleteFunc(failures, func(o apply.Outcome) bool { return errors.Is(o.Err, apply.ErrTerminating) })
	run := conditions.Run{Failures: failures, Yielded: s.state.yields}
	c := run.Applied()
	// What the last attempt at everything found stands until the next one: this run looked at some of it only.
	reason := appliedReason(s.mr)
	concerned := len(failures) > 0 && reason != resourcesv1alpha1.ReasonApplyFailed || appliedTrue(s.mr) ||
		reason == resourcesv1alpha1.ReasonOwnedByOther
	s.compared = r.tracker.Judge(s.name)
	err := r.status.write(ctx, s, func(d *draft) {
		d.Resources = withUIDs(d.Resources, uids)
		if len(failures) > 0 {
			r.health.assessFailure(ctx, d, s)
		}
		if concerned {
			d.set(resourcesv1alpha1.ConditionResourcesApplied, c)
		}
		r.health.assess(ctx, d, s)
	})
	if err != nil {
		return reconcile.Result{}, err
	}
	if concerned {
		r.events.applied(s.mr, s.state.last, c)
		s.state.last = &c
	}
	if len(failures) > 0 {
		if err := r.notes.takeBack(ctx, s); err != nil {
			return reconcile.Result{}, err
		}
		return s.afterFailedCorrection(now, failures), nil
	}
	switch {
	case appliedTrue(s.mr):
		err = r.notes.write(ctx, s)
	case appliedReason(s.mr) == resourcesv1alpha1.ReasonOwnedByOther:
		err = r.notes.takeBack(ctx, s) // a restart has to find out the owners again
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	// What drifted again meanwhile is looked at when its turn comes.
	for _, key := range slices.Concat(s.compared.Drifted, s.compared.Missing) {
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
	if rest := s.state.backoff(s.input, now); rest > 0 {
		result = reconcile.Result{RequeueAfter: rest, Priority: new(dispatch.PriorityRetry)}
	} else {
		result = s.fail(s.input)
	}
	if s.wait > 0 {
		result = forDrift(result, s.wait)
	}
	for _, o := range failures {
		result = forDrift(result, max(s.state.mayCorrect(o.Key, now), retryFirst))
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
