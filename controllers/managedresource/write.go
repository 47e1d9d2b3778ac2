package managedresource

import (
	"context"
	"encoding/json"
	"maps"
	"reflect"
	"slices"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/controllers/managedresource/objects"
	"github.com/trellis-hub/trellis/controllers/managedresource/source/content"
	"github.com/trellis-hub/trellis/controllers/managedresource/status"
	"github.com/trellis-hub/trellis/engine/inventory"
	"github.com/trellis-hub/trellis/engine/prune"
)

// read reads and decodes the Secrets. If the content is another one than that whose objects drifted, everything is
// applied.
func (r *reconciler) read(ctx context.Context, s *scope) (bool, reconcile.Result, error) {
	var input string
	var err error
	if len(s.todo) > 0 {
		s.bundle, input, err = r.content.Recall(ctx, &s.Subject, s.input)
	} else {
		s.bundle, input, err = r.content.Read(ctx, &s.Subject)
	}
	if content.IsError(err) {
		return endWith(r.health.cannotRead(ctx, s, r.content, err))
	}
	if err != nil {
		return end(err)
	}
	if input != s.input {
		s.todo = nil
	}
	s.input = input
	return goOn()
}

// connect gets the clients of the target.
func (r *reconciler) connect(ctx context.Context, s *scope) (bool, reconcile.Result, error) {
	var err error
	s.Access, err = r.targets.Access(ctx, s.Target, s.targetStatus.UID)
	if !objects.IsDown(err) || len(s.todo) > 0 {
		return err != nil, reconcile.Result{}, err
	}
	s.cut = true
	if s.bundle.Complete() {
		return endWith(r.health.unreachable(ctx, s))
	}
	return end(r.health.notApplied(ctx, s, resourcesv1alpha1.ReasonDecodingFailed, s.bundle.FaultMessage()))
}

// planObjects finds out what the bundle means for the target.
func (r *reconciler) planObjects(ctx context.Context, s *scope) (bool, reconcile.Result, error) {
	var err error
	s.plan, err = objects.NewPlan(ctx, &s.Subject, r.content.ManagedBy, s.bundle, s.Access, s.todo...)
	if content.IsError(err) {
		return endWith(r.health.cannotRead(ctx, s, r.content, err))
	}
	return err != nil, reconcile.Result{}, err
}

// mark writes the finalizer and the UID of the target, in one patch, before the first write to the target.
func (r *reconciler) mark(ctx context.Context, s *scope) (bool, reconcile.Result, error) {
	if s.Marked() && s.BoundUID() == s.targetStatus.UID {
		return goOn()
	}
	base := s.MR.DeepCopy()
	if !s.Marked() {
		s.MR.Finalizers = append(s.MR.Finalizers, s.Class.Finalizer)
	}
	if s.MR.Annotations == nil {
		s.MR.Annotations = map[string]string{}
	}
	s.MR.Annotations[hubv1alpha1.TargetUIDAnnotation] = string(s.targetStatus.UID)
	err := r.store.Patch(ctx, base, s.MR, false)
	return err != nil, reconcile.Result{}, err
}

// storeInventory writes ahead which objects may exist from now on, and has them watched. It says in the conditions that
// the content changed; if a run has failed with the same content, that was said, and more is known by now.
func (r *reconciler) storeInventory(ctx context.Context, s *scope) (bool, reconcile.Result, error) {
	s.before = s.MR.Status.Resources
	s.listed = s.Book()
	s.old, s.released = s.plan.Leaving(s.listed, s.before)
	if len(s.old)+len(s.released) > 0 {
		torn, err := r.content.Torn(ctx, &s.Subject, s.input)
		if err != nil {
			return end(err)
		}
		if torn {
			return endAfter(busyRetry)
		}
	}
	ahead := inventory.Union(s.before, s.listed.Inherit(s.plan.Entries()))
	if size, err := json.Marshal(ahead); err == nil && len(size) > objects.InventoryLimit {
		return endWith(s.fail(s.input), r.status.Write(ctx, &s.Subject, func(d *status.Draft) {
			d.Say(resourcesv1alpha1.ConditionResourcesApplied, resourcesv1alpha1.ConditionFalse,
				resourcesv1alpha1.ReasonInventoryTooLarge, objects.InventoryTooLarge(len(ahead), len(size)))
		}))
	}
	r.neighbours.Index.Keep(s.Name)
	changed := !slices.EqualFunc(s.before, s.plan.Entries(), sameEntry) ||
		ptr.Deref(s.MR.Status.SecretsDataChecksum, "") != s.plan.Checksum
	again := s.State.FailedWith(s.input)
	err := r.status.Write(ctx, &s.Subject, func(d *status.Draft) {
		d.Resources = ahead
		d.AnswersAgain()
		if changed && !again {
			d.Pending()
		}
	})
	if err != nil {
		return end(err)
	}
	if err := r.tracker.Track(ctx, s.Name, s.Target, ahead, objects.Exact(s.MR)); err != nil {
		return end(err)
	}
	return goOn()
}

// sameEntry compares entries but for UIDs, which the desired side does not know.
func sameEntry(a, b resourcesv1alpha1.ObjectReference) bool {
	a.UID, b.UID = "", ""
	return reflect.DeepEqual(a, b)
}

// write deletes from the target what is not wanted any longer, releases what is to stay, and applies the rest. A bundle
// that is not understood completely deletes nothing.
func (r *reconciler) write(ctx context.Context, s *scope) (bool, reconcile.Result, error) {
	prunes := s.plan.Complete() && len(s.old) > 0
	var pruning prune.Target
	if prunes {
		var err error
		if pruning, err = r.targets.PruneAccess(ctx, s.Target, s.targetStatus.UID, s.Access); err != nil {
			return end(err)
		}
	}
	r.objects.NoteAutoscalers(ctx, &s.Subject, s.Access, s.plan.Prepared(), false)
	intents := s.plan.Intents(s.listed)
	calls, cancel := context.WithTimeout(ctx, r.callsTimeout)
	defer cancel()
	compared, right := r.objects.Begin(&s.Subject)
	s.seen.Compared, s.present = compared, compared.Observed
	defer r.tracker.End(s.Name) // after a panic, too
	sharers := r.neighbours.Of(ctx, &s.Subject)
	yields := r.objects.Yield(calls, sharers, s.before, intents)
	if prunes {
		policy := r.objects.PrunePolicy(sharers, s.plan.Entries())
		policy.Released = slices.Collect(maps.Values(s.plan.Released))
		inventory.Sort(policy.Released)
		s.pruned = prune.Objects(calls, pruning, s.old, policy)
	}
	s.kept = r.objects.Release(calls, &s.Subject, s.released)
	s.applied = r.objects.ApplyChanged(calls, &s.Subject, intents, right, yields)
	r.tracker.End(s.Name)
	if err := ctx.Err(); err != nil {
		return end(err)
	}
	objects.ExplainNamespaces(calls, s.Access, s.applied)
	return goOn()
}
