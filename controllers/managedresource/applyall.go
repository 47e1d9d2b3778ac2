package managedresource

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/url"
	"reflect"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/controllers/managedresource/dispatch"
	"github.com/trellis-hub/trellis/controllers/managedresource/observe/conditions"
	"github.com/trellis-hub/trellis/controllers/managedresource/observe/tracker"
	"github.com/trellis-hub/trellis/engine/apply"
	"github.com/trellis-hub/trellis/engine/bundle"
	"github.com/trellis-hub/trellis/engine/inventory"
	"github.com/trellis-hub/trellis/engine/prune"
)

// inventoryLimit bounds the inventory in the status. An API server takes requests of about 1.5 MiB, and the rest of the
// object needs room, too.
const inventoryLimit = 1 << 20

// shownPatience is how long a run waits for the watches to show what it wrote.
const shownPatience = 100 * time.Millisecond

// runTimeout bounds a run unless the options do.
const runTimeout = 10 * time.Minute

// callsTimeout bounds the calls of a run to the target. They end early enough for the result to be written.
func (r *reconciler) callsTimeout() time.Duration { return cmp.Or(r.timeout, runTimeout) * 4 / 5 }

// plan is what a bundle means for a target.
type plan struct {
	// objects are to be applied, in the order of the inventory.
	objects []apply.Prepared
	// released are objects that are not managed any more, and stay.
	released map[inventory.Key]resourcesv1alpha1.ObjectReference
	// faults say what cannot be applied, whatever the target says; decoding are documents that could not be read.
	faults   []string
	decoding string
	checksum string
	// strange is true if the target knows the kind of some object not at all: a kind that is misspelt now may be the
	// object that the inventory still has under its right name.
	strange bool
}

// complete tells whether everything in the bundle is understood. An incomplete plan prunes nothing.
func (p *plan) complete() bool { return len(p.faults) == 0 && p.decoding == "" && !p.strange }

func (p *plan) entries() []resourcesv1alpha1.ObjectReference {
	out := make([]resourcesv1alpha1.ObjectReference, 0, len(p.objects))
	for i := range p.objects {
		out = append(out, p.objects[i].Entry)
	}
	return out
}

// plan prepares the objects of a bundle. If it is for only some of them, what it says of the others does not count: they are not looked at
// unless they bear the same names.
func (r *reconciler) plan(
	ctx context.Context, work *run, b *bundle.Bundle, target apply.Target, only ...inventory.Key,
) (*plan, error) {
	if size := len(b.Objects) * sizeOf(work.mr.Spec.InjectLabels); size > inventoryLimit {
		// Each entry of the inventory would have them, and each object in memory.
		return nil, &tooLargeError{
			reason: resourcesv1alpha1.ReasonInventoryTooLarge, message: inventoryTooLarge(len(b.Objects), size),
		}
	}
	p := &plan{released: map[inventory.Key]resourcesv1alpha1.ObjectReference{}, decoding: b.FaultMessage(), checksum: b.Checksum}
	manifests := make([]*unstructured.Unstructured, 0, len(b.Objects))
	for _, o := range b.Objects {
		manifests = append(manifests, o.Unstructured)
	}
	scoped := apply.ScopeOfDefined(manifests)
	marks := apply.Marks{
		Labels: r.labels(work.mr), Origin: work.origin(),
		ForceLabels: deref(work.mr.Spec.ForceOverwriteLabels), ForceAnnotations: deref(work.mr.Spec.ForceOverwriteAnnotations),
	}
	byKey := map[inventory.Key]int{}
	wanted := named(only)
	for _, o := range b.Objects {
		if !wanted(o.Unstructured) {
			continue
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err := o.Invalid(); err != nil {
			p.faults = append(p.faults, err.Error())
			continue
		}
		prepared, err := apply.Prepare(ctx, o.Unstructured, o.Text, target.Mapper, scoped, marks)
		if err != nil {
			if isDown(err) {
				return nil, err
			}
			p.faults = append(p.faults, fmt.Sprintf("%s: %v", o.Position, err))
			continue
		}
		if o.ModeIgnore {
			p.released[prepared.Key] = prepared.Entry
			continue
		}
		p.strange = p.strange || prepared.Unserved
		if i, twice := byKey[prepared.Key]; twice {
			p.objects[i] = prepared // the later document wins, as with kubectl apply
			continue
		}
		byKey[prepared.Key] = len(p.objects)
		p.objects = append(p.objects, prepared)
	}
	slices.SortStableFunc(p.objects, func(a, b apply.Prepared) int { return a.Key.Compare(b.Key) })
	return p, nil
}

// inventoryTooLarge is the message for an inventory of a number of objects and bytes.
func inventoryTooLarge(objects, bytes int) string {
	return fmt.Sprintf("The inventory of %d objects takes %d KiB, more than the %d KiB that fit into one "+
		"ManagedResource. Nothing was written; split the ManagedResource.", objects, bytes>>10, inventoryLimit>>10)
}

// sizeOf is how many bytes labels take at least.
func sizeOf(labels map[string]string) (size int) {
	for name, value := range labels {
		size += len(name) + len(value)
	}
	return size
}

// named returns a function that tells whether a manifest may be that of one of the given objects: only the target knows
// in which namespace it is. No objects mean all.
func named(objects []inventory.Key) func(*unstructured.Unstructured) bool {
	wanted := make(sets.Set[inventory.Key], len(objects))
	for _, k := range objects {
		k.Namespace = ""
		wanted.Insert(k)
	}
	return func(o *unstructured.Unstructured) bool {
		if len(wanted) == 0 {
			return true
		}
		k := inventory.KeyOfObject(o)
		k.Namespace = ""
		return wanted.Has(k)
	}
}

// labels are the injected labels of a ManagedResource with the managed-by label, which always wins.
func (r *reconciler) labels(mr *resourcesv1alpha1.ManagedResource) map[string]string {
	out := make(map[string]string, len(mr.Spec.InjectLabels)+1)
	for k, v := range mr.Spec.InjectLabels {
		out[k] = v
	}
	out[resourcesv1alpha1.ManagedByLabel] = r.managedBy
	return out
}

// applyAll applies the whole ManagedResource: reads its Secrets, writes the inventory ahead, prunes what is not wanted any
// more, applies the rest, and writes the result.
func (r *reconciler) applyAll(ctx context.Context, work *run, status clustercache.Status) (reconcile.Result, error) {
	b, input, err := r.read(ctx, work)
	if isContentError(err) {
		return r.cannotRead(ctx, work, err)
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	target, err := r.access(ctx, work.target, status.UID)
	if isDown(err) {
		r.memory.cutOff(work.name)
		if b.Complete() {
			return r.unreachable(ctx, work, status)
		}
		return reconcile.Result{}, r.notApplied(ctx, work, resourcesv1alpha1.ReasonDecodingFailed, b.FaultMessage())
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	p, err := r.plan(ctx, work, b, target)
	if isContentError(err) {
		return r.cannotRead(ctx, work, err)
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	if err := r.mark(ctx, work, status.UID); err != nil {
		return reconcile.Result{}, err
	}

	before := work.mr.Status.Resources
	desired := p.entries()
	book := bookOf(work.mr)
	old, released := p.leaving(book, before)
	if len(old)+len(released) > 0 {
		torn, err := r.torn(ctx, work, input)
		if err != nil {
			return reconcile.Result{}, err
		}
		if torn {
			return reconcile.Result{RequeueAfter: busyRetry}, nil
		}
	}
	ahead := inventory.Union(before, book.Inherit(desired))
	if size, err := json.Marshal(ahead); err == nil && len(size) > inventoryLimit {
		message := inventoryTooLarge(len(ahead), len(size))
		return r.retryAfterFailure(work, input), r.setApplied(ctx, work, resourcesv1alpha1.ConditionFalse, resourcesv1alpha1.ReasonInventoryTooLarge, message)
	}
	r.shared.Keep(work.name)
	if err := r.writeAhead(ctx, work, ahead, p, r.memory.failedWith(work.name, input)); err != nil {
		return reconcile.Result{}, err
	}
	if err := r.tracker.Track(ctx, work.name, work.target, ahead, exact(work.mr)); err != nil {
		return reconcile.Result{}, err
	}

	var pruning prune.Target
	if p.complete() && len(old) > 0 {
		if pruning, err = r.pruneTarget(ctx, work.target, status.UID, target); err != nil {
			return reconcile.Result{}, err
		}
	}
	r.noteAutoscalers(ctx, work, target, p.planned(), false)
	right := r.right(work)
	todo := intents(p.objects, book)
	calls, cancel := context.WithTimeout(ctx, r.callsTimeout())
	defer cancel()
	r.begin(work)
	defer r.tracker.End(work.name) // after a panic, too
	yields := r.yield(calls, work, target, todo, before)
	var pruned []prune.Outcome
	if p.complete() && len(old) > 0 {
		policy := r.prunePolicy(ctx, work, work.target, status.UID, desired)
		policy.Released = slices.Collect(maps.Values(p.released))
		inventory.Sort(policy.Released)
		pruned = prune.Objects(calls, pruning, old, policy)
	}
	releaseErrors := r.release(calls, work, target, released)
	outcomes := r.applyChanged(calls, work, target, todo, right, yields)
	r.tracker.End(work.name)
	if err := ctx.Err(); err != nil {
		return reconcile.Result{}, err
	}
	sayWhatNamespacesWaitFor(calls, target, outcomes)
	r.report(work, outcomes)
	r.warnUnplaced(work, b, outcomes)
	r.reportPruned(ctx, work, p.pruneCause(), pruned)
	return r.conclude(ctx, work, input, p, old, released, outcomes, pruned, releaseErrors)
}

// intents are the planned objects, addressed by the UIDs that the inventory knows.
func intents(objects []apply.Prepared, known inventory.Lookup) []apply.Intent {
	out := make([]apply.Intent, 0, len(objects))
	for i := range objects {
		in := objects[i].Intent
		if ref := known.Find(in.Key); ref != nil {
			in.UID, in.Base, in.Adopt = ref.UID, apply.BaseOf(ref), ref.UID == ""
		}
		out = append(out, in)
	}
	return out
}

// right returns the objects that are as they were sent last, as the watches show, or as the target answered and the watches
// cannot show yet: a run that is repeated while a busy hub opens its watches would send all of it once more. If an
// apply of everything is asked for, only those that are done.
func (r *reconciler) right(work *run) map[inventory.Key]tracker.Accepted {
	right, _ := r.tracker.AcceptedStates(work.name)
	if r.memory.applyDemanded(work.name) {
		maps.DeleteFunc(right, func(_ inventory.Key, a tracker.Accepted) bool { return !a.Done })
		return right
	}
	verdict := r.tracker.Judge(work.name)
	for _, key := range slices.Concat(verdict.Drifted, verdict.Missing, verdict.Unknown) {
		delete(right, key)
	}
	believed := sets.New(verdict.Believed...)
	for key := range right {
		if _, observed := verdict.Observed[key]; !observed && !believed.Has(key) {
			delete(right, key)
		}
	}
	return right
}

// applyChanged applies intents but those that say what was sent last for an object that is right. Of a large bundle of which
// one object changed, one is sent.
func (r *reconciler) applyChanged(ctx context.Context, work *run, target apply.Target, all []apply.Intent, right map[inventory.Key]tracker.Accepted, yields map[inventory.Key]apply.Outcome) []apply.Outcome {
	outcomes := make([]apply.Outcome, len(all))
	var changed []apply.Intent
	var places []int
	for i, in := range all {
		if yielded, ok := yields[in.Key]; ok {
			outcomes[i] = yielded
			continue
		}
		// An object that is going is not written to: it is made again when it is gone.
		if obs, found, synced := r.tracker.Observed(work.name, in.Key); found && synced && obs.Terminating {
			outcomes[i] = apply.Outcome{Key: in.Key, Err: apply.ErrTerminating}
			continue
		}
		was, ok := right[in.Key]
		if ok && in.Digest != 0 && was.Intent == in.Digest {
			outcomes[i] = apply.Outcome{Key: in.Key, UID: was.UID, ResourceVersion: was.ResourceVersion, State: was.State, Unchanged: true}
			continue
		}
		changed, places = append(changed, in), append(places, i)
	}
	for i, o := range r.applyIntents(ctx, work, target, changed) {
		outcomes[places[i]] = o
	}
	return outcomes
}

// applyIntents applies and accepts each object as soon as it is right.
func (r *reconciler) applyIntents(ctx context.Context, work *run, target apply.Target, todo []apply.Intent) []apply.Outcome {
	scaled := map[inventory.Key]bool{}
	for _, in := range todo {
		if in.Autoscaled {
			scaled[in.Key] = true
		}
	}
	return r.applier.Run(ctx, target, todo, func(o apply.Outcome) {
		if o.Err == nil {
			r.tracker.Accept(work.name, o.Key, tracker.Accepted{
				UID: o.UID, ResourceVersion: o.ResourceVersion, State: o.State, Autoscaled: scaled[o.Key], Intent: o.Digest,
			})
		}
	})
}

// writeAhead stores the inventory that may exist from now on, and says in the conditions that the content changed. If
// a run has failed with the same content, that was said, and more is known by now.
func (r *reconciler) writeAhead(ctx context.Context, work *run, ahead []resourcesv1alpha1.ObjectReference, p *plan, again bool) error {
	changed := !slices.EqualFunc(work.mr.Status.Resources, p.entries(), sameEntry) || ptr.Deref(work.mr.Status.SecretsDataChecksum, "") != p.checksum
	return r.updateStatus(ctx, work, func(s *resourcesv1alpha1.ManagedResourceStatus) {
		s.Resources = ahead
		r.endSilence(s)
		if changed && !again {
			r.pendingConditions(s)
		}
	})
}

// sameEntry compares entries but for UIDs, which the desired side does not know.
func sameEntry(a, b resourcesv1alpha1.ObjectReference) bool {
	a.UID, b.UID = "", ""
	return reflect.DeepEqual(a, b)
}

// conclude writes the result of a run.
func (r *reconciler) conclude(ctx context.Context, work *run, input string, p *plan, old []resourcesv1alpha1.ObjectReference, released []orphan,
	outcomes []apply.Outcome, pruned []prune.Outcome, releaseErrors map[inventory.Key]error) (reconcile.Result, error) {
	inv, pending := r.inventoryAfter(work, p, old, released, outcomes, pruned, releaseErrors)
	failures := apply.Failures(outcomes)
	if r.lost(ctx, work, failures, pending) {
		return r.concludeLost(ctx, work, inv)
	}
	came := conditions.Run{Faults: p.faults, Undecoded: p.decoding, Failures: failures, Pending: pending, Unreleased: releaseErrors, Yielded: r.memory.yields(work.name)}
	c := came.Applied()
	finished := c.Reason == resourcesv1alpha1.ReasonApplySucceeded || c.Reason == resourcesv1alpha1.ReasonDecodingFailed ||
		c.Reason == resourcesv1alpha1.ReasonOwnedByOther

	if err := r.tracker.Track(ctx, work.name, work.target, inv, exact(work.mr)); err != nil {
		return reconcile.Result{}, err
	}
	if finished {
		r.tracker.AwaitShown(ctx, work.name, shownPatience) // or else the health needs a write of its own right afterwards
	}
	before := r.memory.concluded(work.name, c)
	r.bring(work, outcomes)
	err := r.updateStatus(ctx, work, func(s *resourcesv1alpha1.ManagedResourceStatus) {
		s.Resources = inv
		if !finished {
			r.assessFailure(ctx, s, work)
		}
		r.set(s, resourcesv1alpha1.ConditionResourcesApplied, c)
		if finished {
			s.ObservedGeneration = work.mr.Generation
			s.SecretsDataChecksum = ptr.To(p.checksum)
		}
		r.assess(ctx, s, work)
	})
	if err != nil {
		return reconcile.Result{}, err
	}
	r.memory.appliedAll(work.name, r.clock.Now())
	waitsFor := awaited(failures, pending)
	r.memory.await(work.name, waitsFor)
	r.events.applied(work.mr, before, c)
	if c.Reason != resourcesv1alpha1.ReasonApplySucceeded {
		if !work.changed.IsZero() {
			r.changes.start(work.name, work.changed) // it is not applied yet
		}
		if err := r.unmarkApplied(ctx, work, input); err != nil {
			return reconcile.Result{}, err
		}
		if c.Reason == resourcesv1alpha1.ReasonOwnedByOther && len(pending) == 0 {
			r.memory.settled(work.name, input) // what was left to others comes back by events
			v := r.tracker.Compare(work.name)
			result := r.settled(work, v)
			if v.Synced {
				for _, key := range v.Missing { // or it does not
					result = forDrift(result, r.correctable(work.name, key, r.clock.Now()))
				}
			}
			return result, nil
		}
		retry := r.retryAfterFailure(work, input)
		lacks := slices.ContainsFunc(failures, func(o apply.Outcome) bool { return conditions.Lacks(o.Err) })
		r.memory.lack(work.name, work.target, lacks)
		result := r.withDrift(r.atDue(work, retry, pending), work, r.tracker.Compare(work.name), failures...)
		if r.wentMeanwhile(work, waitsFor) {
			return sooner(result, busyRetry), nil
		}
		return result, nil
	}
	r.memory.settled(work.name, input)
	if !work.changed.IsZero() {
		r.metrics.of(work.class.Name).propagation.Observe(r.clock.Since(work.changed).Seconds())
	}
	r.memory.note(work.name, r.clock.Now().Add(noteDelay))
	// What happened to the objects while they were written was noted, not judged.
	v := r.tracker.Compare(work.name)
	if v.Synced && len(v.Drifted)+len(v.Missing)+len(v.Unknown) > 0 {
		return reconcile.Result{RequeueAfter: busyRetry, Priority: new(dispatch.PriorityDrift)}, nil
	}
	return r.noteApplied(ctx, work, input, r.settled(work, v))
}

// lost tells whether a run failed because its target went away. Then nothing is said about the objects: what was
// applied stays applied, as far as anybody knows.
func (r *reconciler) lost(ctx context.Context, work *run, failures []apply.Outcome, pending []prune.Outcome) bool {
	unanswered := func(err error) bool {
		var answer apierrors.APIStatus
		return isDown(err) || errors.Is(err, clustercache.ErrConnectionReplaced) || !errors.As(err, &answer) && isTransport(err)
	}
	failed := slices.ContainsFunc(failures, func(o apply.Outcome) bool { return unanswered(o.Err) }) ||
		slices.ContainsFunc(pending, func(o prune.Outcome) bool { return o.Err != nil && unanswered(o.Err) })
	if !failed {
		r.memory.answered(work.name)
		return false
	}
	status, _ := r.clusters.GetStatus(work.target)
	if status.State != clustercache.StateConnected || r.clusters.GetHealthCheckingState(ctx, work.target).ConsecutiveFailures > 0 {
		return true
	}
	// Calls fail before a probe finds out. It will have by the next run, and then the failures are told if it is not that.
	return r.memory.unanswered(work.name)
}

func isTransport(err error) bool {
	var call *url.Error
	var network net.Error
	return errors.As(err, &call) || errors.As(err, &network) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// concludeLost notes what is owned after a run whose target went away. The connect event brings the ManagedResource back;
// the timer is for a target that was only about to go.
func (r *reconciler) concludeLost(ctx context.Context, work *run, inv []resourcesv1alpha1.ObjectReference) (reconcile.Result, error) {
	err := r.updateStatus(ctx, work, func(s *resourcesv1alpha1.ManagedResourceStatus) {
		s.Resources = inv
		r.ask(ctx, s, work) // health is not judged: nobody knows what was written
	})
	return reconcile.Result{RequeueAfter: retryLost}, err
}

// retryLost is the pause after a run whose target went away. If it is away, the next run ends at once and waits for events.
const retryLost = 2 * time.Second

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
func (r *reconciler) inventoryAfter(work *run, p *plan, old []resourcesv1alpha1.ObjectReference, released []orphan,
	outcomes []apply.Outcome, pruned []prune.Outcome, releaseErrors map[inventory.Key]error) (inv []resourcesv1alpha1.ObjectReference, pending []prune.Outcome) {
	book := bookOf(work.mr)
	wanted := keysOf(p.entries())
	for i := range p.objects {
		entry := p.objects[i].Entry
		if o := outcomes[i]; o.Err == nil {
			entry.UID = o.UID
		} else if same := book.Same(o.Key); len(same) > 0 {
			entry = *same[0] // not applied, so the merge base stays
			for _, ref := range same[1:] {
				if key := inventory.KeyOf(*ref); !wanted[key] {
					wanted[key], inv = true, append(inv, *ref) // the object may exist under the old kind only
				}
			}
		}
		inv = append(inv, entry)
	}
	if p.complete() {
		for _, o := range pruned {
			if o.Result == prune.Pending {
				inv, pending = append(inv, o.Ref), append(pending, o)
			}
		}
	} else {
		inv = append(inv, old...)
	}
	for _, o := range released {
		if releaseErrors[inventory.KeyOf(o.entry)] != nil {
			inv = append(inv, o.entry)
		}
	}
	inventory.Sort(inv)
	return inv, pending
}

// bring has others tried again for which this run has created what they lack in the target.
func (r *reconciler) bring(work *run, outcomes []apply.Outcome) {
	known := bookOf(work.mr)
	for _, o := range outcomes {
		if gk := o.Key.GroupKind(); o.UID == "" || o.Unchanged || !inventory.IsNamespace(gk) && !inventory.ServesKinds(gk) {
			continue
		}
		if ref := known.Find(o.Key); ref != nil && ref.UID == o.UID {
			continue
		}
		for _, name := range r.memory.lacking(work.target, r.clock.Now()) {
			if name != work.name {
				r.enqueue(name)
			}
		}
		return
	}
}

// unmarkApplied takes back the note that an input was applied, after a run that failed with the same input.
func (r *reconciler) unmarkApplied(ctx context.Context, work *run, input string) error {
	r.memory.note(work.name, time.Time{})
	noted, ok := parseApplied(work.mr.Annotations[hubv1alpha1.AppliedAnnotation])
	if !ok || noted.Input != input {
		return nil
	}
	base := work.mr.DeepCopy()
	delete(work.mr.Annotations, hubv1alpha1.AppliedAnnotation)
	return r.source.Patch(ctx, base, work.mr, false)
}

func (r *reconciler) retryAfterFailure(work *run, input string) reconcile.Result {
	return reconcile.Result{RequeueAfter: r.memory.failed(work.name, input, r.clock.Now()), Priority: new(dispatch.PriorityRetry)}
}
