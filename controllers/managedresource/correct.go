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
	"github.com/trellis-hub/trellis/clustercache"
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
	by      []ownership.Foreign // who changed what, where that can be told
	owner   string              // that it named when it went, as the watches showed
}

// correct brings single objects back to what the ManagedResource says. Objects whose drift keeps coming back wait.
func (r *reconciler) correct(ctx context.Context, work *run, status clustercache.Status, input string, keys []inventory.Key) (reconcile.Result, error) {
	now := r.clock.Now()
	var wait time.Duration
	keys = slices.DeleteFunc(keys, func(k inventory.Key) bool {
		w := r.memory.mayCorrect(work.name, k, now)
		if w > 0 && (wait == 0 || w < wait) {
			wait = w
		}
		return w > 0
	})
	if len(keys) == 0 {
		result, err := r.evaluate(ctx, work, status)
		return sooner(result, wait), err
	}

	b, readInput, err := r.recall(ctx, work, input)
	if isContentError(err) {
		return r.cannotRead(ctx, work, err)
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	if readInput != input {
		return r.applyAll(ctx, work, status) // the content changed meanwhile
	}
	target, err := r.access(ctx, work.target, status.UID)
	if err != nil {
		return reconcile.Result{}, err
	}
	p, err := r.plan(ctx, work, b, target, keys...)
	if isContentError(err) {
		return r.cannotRead(ctx, work, err)
	}
	if err != nil {
		return reconcile.Result{}, err
	}

	// Every attempt counts, those with nothing to do included: an object that is going, or one that is only kept because
	// the bundle is incomplete, would otherwise be looked at again and again.
	for _, key := range keys {
		r.memory.corrected(work.name, key, now)
	}
	r.noteAutoscalers(ctx, work, target, p.planned(keys...), true)
	accepted, _ := r.tracker.AcceptedStates(work.name) // Begin forgets those that left the selection
	r.tracker.Begin(work.name, keys...)
	defer r.tracker.End(work.name) // after a panic, too
	drifts, unread, left := r.examine(ctx, work, target, p, keys, accepted)
	if left > 0 && (wait == 0 || left < wait) {
		wait = left
	}
	var outcomes []apply.Outcome
	if len(drifts) > 0 {
		todo := make([]apply.Intent, 0, len(drifts))
		for _, d := range drifts {
			todo = append(todo, d.intent)
		}
		outcomes = r.applyIntents(ctx, work, target, todo)
	}
	r.tracker.End(work.name)
	if err := ctx.Err(); err != nil {
		return reconcile.Result{}, err
	}
	return r.concludeCorrection(ctx, work, input, drifts, append(outcomes, unread...), wait)
}

// examine reads the drifted objects live: whether they exist, and who changed them since they were accepted. Objects that turn
// out to be right, or to be those of another ManagedResource, are accepted as they are. unread are those that could not be
// looked at. wait is when to look again at one that its owner has to bring back; zero if there is none.
func (r *reconciler) examine(ctx context.Context, work *run, target apply.Target, p *plan, keys []inventory.Key, accepted map[inventory.Key]tracker.Accepted) (drifts []drift, unread []apply.Outcome, wait time.Duration) {
	yields := r.memory.yields(work.name)
	if yields == nil {
		yields = map[inventory.Key]types.NamespacedName{}
	}
	defer func() { r.memory.yield(work.name, yields) }() // what cannot be looked at stays whose it was
	known := inventory.Index(work.mr.Status.Resources)
	planned := make(map[inventory.Key]*apply.Prepared, len(p.objects))
	for i := range p.objects {
		planned[p.objects[i].Key] = &p.objects[i]
	}
	var todo []apply.Intent
	for _, key := range keys {
		if planned[key] != nil && known[key] != nil { // else on its way out, or kept because the bundle is incomplete
			todo = append(todo, planned[key].Intent)
		}
	}
	for i, head := range r.heads(ctx, target, todo) {
		key, live := todo[i].Key, head.live
		prepared, ref := planned[key], known[key]
		_, yielded := yields[key]
		d := drift{intent: prepared.Intent, entry: prepared.Entry}
		d.intent.Base = apply.BaseOf(ref)
		was, ok := accepted[key]
		switch {
		case head.absent():
			if yielded && len(r.owners(ctx, work, key)) > 0 {
				if left := r.memory.leaveTo(work.name, key, r.clock.Now()); left > 0 {
					wait = left
					continue
				}
			}
			delete(yields, key)
			d.created, d.intent.UID, d.owner = true, "", r.tracker.OwnerOf(work.name, key)
		case head.err != nil:
			unread = append(unread, apply.Outcome{Key: key, Err: fmt.Errorf("reading the live object: %w", head.err)})
			continue
		case live.DeletionTimestamp != nil:
			continue // its delete event brings us back
		case r.yieldTo(ctx, work, key, live, yields):
			continue
		case d.intent.CreateOnly:
			r.tracker.Accept(work.name, key, tracker.Accepted{UID: live.UID, ResourceVersion: live.ResourceVersion})
			continue
		default:
			d.intent.UID = live.UID
			d.created = ref.UID != "" && ref.UID != live.UID && live.Annotations[resourcesv1alpha1.OriginAnnotation] == ""
			// After a start it is not known what was applied last, but that it was this.
			d.intent.Same = ok && was.UID == live.UID && (was.Intent == prepared.Digest || was.Intent == 0 && !yielded)
			if ok && r.isUndisturbed(live, prepared, was, exact(work.mr)) {
				r.memory.undisturbed(work.name, key, r.clock.Now())
				r.tracker.Accept(work.name, key, tracker.Accepted{
					UID: live.UID, ResourceVersion: live.ResourceVersion, State: ownership.Observe(live, r.applier.FieldManager),
					Autoscaled: was.Autoscaled, Intent: was.Intent,
				})
				continue
			}
			d.by = r.blame(live, prepared)
			if len(d.by) == 0 && ok && !yielded {
				d.by = r.removed(live, prepared, was)
			}
		}
		drifts = append(drifts, d)
	}
	return drifts, unread, wait
}

// isUndisturbed tells of an object that is not as it was accepted whether that is only because others wrote what is theirs
// to write. The watches cannot tell: what is whose depends on the manifest.
func (r *reconciler) isUndisturbed(live *metav1.PartialObjectMetadata, prepared *apply.Prepared, was tracker.Accepted, exact tracker.Exact) bool {
	record := ownership.Read(live, r.applier.FieldManager)
	if record.Owned() == nil || was.UID != live.UID || was.Intent != prepared.Digest || was.Autoscaled != prepared.Autoscaled {
		return false
	}
	before, now := was.State, record.State().Within(exact.Labels, exact.Annotations)
	before.Foreign, now.Foreign = 0, 0
	foreign, err := record.Foreign(prepared.Exempt())
	return err == nil && len(foreign) == 0 && before == now
}

// yieldTo accepts an object that belongs to another ManagedResource, and notes to which.
func (r *reconciler) yieldTo(ctx context.Context, work *run, key inventory.Key, live *metav1.PartialObjectMetadata,
	yields map[inventory.Key]types.NamespacedName) bool {
	owner, owned := r.ownerOf(ctx, work, key, live)
	if !owned {
		delete(yields, key)
		return false
	}
	yields[key] = owner
	r.acceptForeign(work, key, live)
	return true
}

// blame lists who holds fields that are ours to set, or added payload beside them.
func (r *reconciler) blame(live *metav1.PartialObjectMetadata, prepared *apply.Prepared) []ownership.Foreign {
	by := ownership.LostTo(live, r.applier.FieldManager, toBeOurs(prepared), prepared.Kept())
	if added, err := ownership.ForeignPayload(live, r.applier.FieldManager, prepared.Exempt()); err == nil {
		by = append(by, added...)
	}
	return by
}

// removed tells of an object of which nobody holds what is ours whether it lacks something nevertheless: who takes a field
// away owns nothing by that.
func (r *reconciler) removed(live *metav1.PartialObjectMetadata, prepared *apply.Prepared, was tracker.Accepted) []ownership.Foreign {
	record := ownership.Read(live, r.applier.FieldManager)
	sameIntent := was.Intent == prepared.Digest || was.Intent == 0 // the latter after a restart
	if record.Owned() == nil || was.UID != live.UID || !sameIntent || was.State.Own == record.State().Own {
		return nil
	}
	if taken := ownership.LostTo(live, r.applier.FieldManager, toBeOurs(prepared), nil); len(taken) > 0 {
		return nil // by somebody whose value wins
	}
	gone := record.Gone(toBeOurs(prepared), prepared.Kept())
	if gone.Empty() {
		return nil
	}
	return []ownership.Foreign{{Fields: gone}}
}

// toBeOurs are the fields that nobody else may change: those of the manifest, but for what counts at creation only, and the
// owner references, of which there are to be none but the manifest's.
func toBeOurs(prepared *apply.Prepared) *fieldpath.Set {
	set := ownership.Fields(prepared.Object.Object).Difference(fieldpath.NewSet(fieldpath.MakePathOrDie("metadata", "finalizers")))
	set.Insert(fieldpath.MakePathOrDie("metadata", "ownerReferences"))
	return set
}

// concludeCorrection writes the result of a correction. The first outcomes are those of the drifts. The conditions stay unless
// it failed.
func (r *reconciler) concludeCorrection(ctx context.Context, work *run, input string, drifts []drift, outcomes []apply.Outcome, wait time.Duration) (reconcile.Result, error) {
	now := r.clock.Now() // the correction took time
	uids := map[inventory.Key]apply.Outcome{}
	for i, o := range outcomes {
		if errors.Is(o.Err, apply.ErrTerminating) {
			continue
		}
		if o.Err == nil {
			uids[o.Key] = o
			if drifts[i].created || len(drifts[i].by) > 0 {
				r.events.corrected(work.mr, drifts[i])
				r.memory.fought(work.name, o.Key, drifts[i].who(), now)
				r.metrics.corrected(work, drifts[i], now)
				work.log.Info("Corrected drift", "object", o.Key.String(), "recreated", drifts[i].created, "changedBy", drifts[i].who())
			}
		}
	}
	if r.lost(ctx, work, apply.Failures(outcomes), nil) {
		return r.concludeLost(ctx, work, withUIDs(work.mr.Status.Resources, uids))
	}
	r.measureDrift(work, uids, now, len(apply.Failures(outcomes)) > 0)
	failures := slices.DeleteFunc(apply.Failures(outcomes), func(o apply.Outcome) bool { return errors.Is(o.Err, apply.ErrTerminating) })
	came := conditions.Run{Failures: failures, Yielded: r.memory.yields(work.name)}
	c := came.Applied()
	// What the last attempt at everything found stands until the next one: this run looked at some of it only.
	concerned := len(failures) > 0 && !failed(work.mr) || appliedTrue(work.mr) || owned(work.mr)
	err := r.updateStatus(ctx, work, func(s *resourcesv1alpha1.ManagedResourceStatus) {
		s.Resources = withUIDs(s.Resources, uids)
		if len(failures) > 0 {
			r.assessFailure(ctx, s, work)
		}
		if concerned {
			r.set(s, resourcesv1alpha1.ConditionResourcesApplied, c)
		}
		r.assess(ctx, s, work)
	})
	if err != nil {
		return reconcile.Result{}, err
	}
	if concerned {
		r.events.applied(work.mr, r.memory.concluded(work.name, c), c)
	}
	if len(failures) > 0 {
		if err := r.unmarkApplied(ctx, work, input); err != nil {
			return reconcile.Result{}, err
		}
		var result reconcile.Result
		if rest := r.memory.backoff(work.name, input, now); rest > 0 { // the pause after another failure gets no longer by this one
			result = reconcile.Result{RequeueAfter: rest, Priority: new(dispatch.PriorityRetry)}
		} else {
			result = r.retryAfterFailure(work, input)
		}
		if wait > 0 {
			result = forDrift(result, wait)
		}
		// Those that failed are tried again at their own pace: what else fails may have to wait for minutes.
		for _, o := range failures {
			result = forDrift(result, max(r.memory.mayCorrect(work.name, o.Key, now), retryFirst))
		}
		return r.withDrift(result, work, r.tracker.Compare(work.name), failures...), nil
	}
	switch {
	case appliedTrue(work.mr):
		err = r.markApplied(ctx, work, input)
	case owned(work.mr):
		err = r.unmarkApplied(ctx, work, input) // a restart has to find out anew who owns what
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	// What drifted again meanwhile is looked at when its turn comes.
	v := r.tracker.Compare(work.name)
	for _, key := range slices.Concat(v.Drifted, v.Missing) {
		if again := r.correctable(work.name, key, now); wait == 0 || again < wait {
			wait = again
		}
	}
	if wait > 0 {
		return reconcile.Result{RequeueAfter: wait, Priority: new(dispatch.PriorityDrift)}, nil
	}
	return r.settled(work, v), nil
}

// measureDrift tells how long it took to bring objects back. What could not be is measured on.
func (r *reconciler) measureDrift(work *run, corrected map[inventory.Key]apply.Outcome, now time.Time, failed bool) {
	switch {
	case work.drifted.IsZero():
	case failed:
		r.drifts.start(work.name, work.drifted)
	case len(corrected) > 0:
		r.metrics.of(work.class.Name).driftTime.Observe(now.Sub(work.drifted).Seconds())
	}
}

// withUIDs returns an inventory with the UIDs of objects that were created again.
func withUIDs(refs []resourcesv1alpha1.ObjectReference, outcomes map[inventory.Key]apply.Outcome) []resourcesv1alpha1.ObjectReference {
	refs = slices.Clone(refs)
	for i := range refs {
		if o, ok := outcomes[inventory.KeyOf(refs[i])]; ok {
			refs[i].UID = o.UID
		}
	}
	return refs
}

// owned tells whether objects of a ManagedResource were left to another one that lists them, too.
func owned(mr *resourcesv1alpha1.ManagedResource) bool {
	c := resourcesv1alpha1.GetCondition(mr.Status.Conditions, resourcesv1alpha1.ConditionResourcesApplied)
	return c != nil && c.Reason == resourcesv1alpha1.ReasonOwnedByOther
}

// failed tells whether a ManagedResource says that objects could not be applied.
func failed(mr *resourcesv1alpha1.ManagedResource) bool {
	c := resourcesv1alpha1.GetCondition(mr.Status.Conditions, resourcesv1alpha1.ConditionResourcesApplied)
	return c != nil && c.Reason == resourcesv1alpha1.ReasonApplyFailed
}

func appliedTrue(mr *resourcesv1alpha1.ManagedResource) bool {
	c := resourcesv1alpha1.GetCondition(mr.Status.Conditions, resourcesv1alpha1.ConditionResourcesApplied)
	return c != nil && c.Status == resourcesv1alpha1.ConditionTrue
}
