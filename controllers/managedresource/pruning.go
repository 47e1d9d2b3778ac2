package managedresource

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/engine/apply"
	"github.com/trellis-hub/trellis/engine/inventory"
	"github.com/trellis-hub/trellis/engine/prune"
	"github.com/trellis-hub/trellis/untrusted"
)

// pruneTarget is the access for deletions to a target whose other clients are known to lead to the cluster with a UID.
func (r *reconciler) pruneTarget(ctx context.Context, key clustercache.ClusterKey, uid types.UID, target apply.Target) (prune.Target, error) {
	config, err := r.clusters.GetRESTConfig(ctx, key)
	if err != nil {
		return prune.Target{}, err
	}
	if status, _ := r.clusters.GetStatus(key); status.UID != uid {
		return prune.Target{}, fmt.Errorf("target %s is not the cluster with UID %s any more: %w", key, uid, clustercache.ErrConnectionReplaced)
	}
	deletes, err := prune.NewDeletes(config)
	if err != nil {
		return prune.Target{}, fmt.Errorf("target %s: %w", key, err)
	}
	return prune.Target{
		Metadata: target.Metadata, Deletes: deletes, Client: target.Client, Mapper: target.Mapper,
		Hold: clustercache.HoldAnswers,
	}, nil
}

// prunePolicy says what may be deleted in the cluster with a UID through a target: what no other ManagedResource lists
// that has a say there. desired is what this one wants to keep there.
func (r *reconciler) prunePolicy(ctx context.Context, work *run, through clustercache.ClusterKey, uid types.UID,
	desired []resourcesv1alpha1.ObjectReference) prune.Policy {
	others := r.sharers(ctx, work, uid, through)
	holder := func(match func(inventory.Key) bool) string {
		if slices.ContainsFunc(desired, func(ref resourcesv1alpha1.ObjectReference) bool { return match(inventory.KeyOf(ref)) }) {
			return "this ManagedResource"
		}
		return others.any(match)
	}
	wanted := keysOf(desired)
	return prune.Policy{
		Origin: work.origin(), FieldManager: r.applier.FieldManager, Parallel: r.applier.Parallel, Clock: r.clock,
		KeepGarbageCollectable:       r.keepGarbageCollectable,
		DeletePersistentVolumeClaims: deref(work.mr.Spec.DeletePersistentVolumeClaims),
		Undecided:                    others.undecided,
		ListedByOther:                func(k inventory.Key) bool { return len(others.of(k)) > 0 },
		GiveUp: func(k inventory.Key) bool {
			return r.shared.GiveUp(work.name, k,
				others.verified, others.places...)
		},
		Disclaim: func(k inventory.Key) { r.shared.Decline(work.name, k) },
		Wanted:  func(k inventory.Key) bool { return wanted[k] },
		HolderIn: func(namespace string) string {
			return holder(func(k inventory.Key) bool { return k.Namespace == namespace })
		},
		HolderOf: func(gk schema.GroupKind) string {
			return holder(func(k inventory.Key) bool { return k.GroupKind() == gk })
		},
	}
}

// orphan is an entry of an object that is not managed any more, and stays.
type orphan struct {
	entry resourcesv1alpha1.ObjectReference
	// manifest is what asks for it, possibly under an equivalent kind.
	manifest resourcesv1alpha1.ObjectReference
}

// leaving are the entries of an inventory that are not wanted any more: old ones are to be deleted, orphans are to
// stay. An entry counts for an object of any equivalent kind.
func (p *plan) leaving(book inventory.Lookup, refs []resourcesv1alpha1.ObjectReference) (old []resourcesv1alpha1.ObjectReference, orphans []orphan) {
	wanted := map[inventory.Key]bool{}
	for i := range p.objects {
		for _, ref := range book.Same(p.objects[i].Key) {
			wanted[inventory.KeyOf(*ref)] = true
		}
	}
	stay := map[inventory.Key]resourcesv1alpha1.ObjectReference{}
	for key, manifest := range p.released {
		for _, ref := range book.Same(key) {
			stay[inventory.KeyOf(*ref)] = manifest
		}
	}
	for _, ref := range refs {
		key := inventory.KeyOf(ref)
		if wanted[key] {
			continue
		}
		if manifest, ok := stay[key]; ok {
			orphans = append(orphans, orphan{ref, manifest})
		} else {
			old = append(old, ref)
		}
	}
	return old, orphans
}

// bookOf finds what a ManagedResource lists.
func bookOf(mr *resourcesv1alpha1.ManagedResource) inventory.Lookup {
	return inventory.NewLookup(mr.Status.Resources, inventory.NewEquivalences(mr.Spec.Equivalences...))
}

// release takes our marks off objects that are not managed any more, and returns what failed by the keys of their entries.
func (r *reconciler) release(ctx context.Context, work *run, target apply.Target, orphans []orphan) map[inventory.Key]error {
	failed := map[inventory.Key]error{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	slots := make(chan struct{}, max(r.applier.Parallel, 1))
	at := prune.Target{Metadata: target.Metadata, Client: target.Client, Mapper: target.Mapper}
	releaser := prune.NewReleaser(at, work.origin(), r.applier.FieldManager)
	for _, o := range orphans {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			err := releaser.Release(ctx, o.entry)
			if err == nil && inventory.KeyOf(o.entry) != inventory.KeyOf(o.manifest) { // the old kind may not be served any more
				err = releaser.Release(ctx, o.manifest)
			}
			if err != nil {
				mu.Lock()
				defer mu.Unlock()
				failed[inventory.KeyOf(o.entry)] = err
			}
		})
	}
	wg.Wait()
	return failed
}

// pruneCause is why objects leave an inventory, as metrics call it.
type pruneCause string

const (
	causeRemoved     pruneCause = "removed"
	causeEmptied     pruneCause = "emptied"
	causeDeleted     pruneCause = "deleted"
	causeTransferred pruneCause = "transferred"
	causeMoved       pruneCause = "moved"
)

var pruneCauses = []pruneCause{causeRemoved, causeEmptied, causeDeleted, causeTransferred, causeMoved}

// pruneReasons say of deleted objects why they were.
var pruneReasons = map[pruneCause]string{
	causeRemoved:     " that no manifest names any more",
	causeEmptied:     " that no manifest names any more",
	causeDeleted:     " with the ManagedResource",
	causeTransferred: ", because another class has the ManagedResource now",
	causeMoved:       " in the former target cluster",
}

// pruneCause is why objects that are not in a plan are pruned.
func (p *plan) pruneCause() pruneCause {
	if len(p.objects) == 0 && len(p.released) == 0 {
		return causeEmptied
	}
	return causeRemoved
}

// cleanCause is why all objects of a ManagedResource are deleted from a target.
func cleanCause(work *run) pruneCause {
	switch {
	case work.mr.DeletionTimestamp != nil:
		return causeDeleted
	case work.decision.Leaving:
		return causeTransferred
	default:
		return causeMoved
	}
}

// reportPruned counts and tells what a run deleted, and what it left.
func (r *reconciler) reportPruned(ctx context.Context, work *run, cause pruneCause, outcomes []prune.Outcome) {
	figures := r.metrics.of(work.class.Name).pruned[cause]
	var deleted []prune.Outcome
	released := map[string][]resourcesv1alpha1.ObjectReference{} // by reason
	for _, o := range outcomes {
		if len(o.Finalized) > 0 {
			work.log.Info("Took the finalizers off an object", "object", o.Key.String(), "finalizers", o.Finalized)
			r.events.finalized(work.mr, o)
		}
		if o.Claims > 0 {
			work.log.Info("Deleted PersistentVolumeClaims of a StatefulSet", "object", o.Key.String(), "claims", o.Claims)
		}
		if o.Deleted {
			deleted = append(deleted, o)
			work.log.Info("Deleted an object", "object", o.Key.String(), "uid", o.Ref.UID, "cause", cause)
		}
		switch {
		case o.Err != nil:
			figures.failed.Inc()
		case o.Result == prune.Gone:
			figures.deleted.Inc()
		case o.Result == prune.Kept:
			figures.kept.Inc()
			work.log.Info("Left an object in the target", "object", o.Key.String(), "reason", o.Reason)
			if o.Released {
				released[o.Reason] = append(released[o.Reason], o.Ref)
			}
		}
	}
	for _, why := range sortedKeys(released) {
		r.events.released(work.mr, why, released[why])
	}
	if len(deleted) == 0 {
		return
	}
	r.events.pruned(work.mr, cause, deleted)
	if cause == causeEmptied {
		why := r.emptiedBy(ctx, work)
		r.events.allPruned(work.mr, deleted, len(outcomes), why)
		work.log.Info("No manifest is left", "objects", len(outcomes), "deleted", len(deleted), "why", why)
	}
}

// emptySecrets is how many Secrets are named that hold no manifest.
const emptySecrets = 5

// emptiedBy says of a ManagedResource without manifests which Secrets hold none, and who changed them last. What
// changed last comes first, for that is what emptied it.
func (r *reconciler) emptiedBy(ctx context.Context, work *run) string {
	all := secretNames(work.mr)
	if len(all) == 0 {
		return "spec.secretRefs is empty"
	}
	changes := make([]change, 0, min(len(all), emptySecrets))
	for _, name := range all[:min(len(all), emptySecrets)] {
		changes = append(changes, r.lastChange(ctx, name))
	}
	slices.SortStableFunc(changes, func(a, b change) int { return b.at.Compare(a.at) })
	texts := make([]string, 0, len(changes)+1)
	for _, c := range changes {
		texts = append(texts, c.String())
	}
	if rest := len(all) - len(changes); rest > 0 {
		texts = append(texts, fmt.Sprintf("and %d more Secrets", rest))
	}
	return "no manifest is left in " + strings.Join(texts, ", ")
}

// change is the last change of a Secret, as far as its managed fields tell.
type change struct {
	secret types.NamespacedName
	at     time.Time
	by     string
}

func (c change) String() string {
	if c.at.IsZero() {
		return fmt.Sprintf("Secret %s", c.secret)
	}
	return fmt.Sprintf("Secret %s (changed by %s at %s)", c.secret, c.by, c.at.UTC().Format(time.RFC3339))
}

// lastChange reads who changed a Secret last. It is for people, so it fails in silence.
func (r *reconciler) lastChange(ctx context.Context, name types.NamespacedName) change {
	last := change{secret: name}
	secret := &metav1.PartialObjectMetadata{}
	secret.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	if err := r.live.Get(ctx, name, secret); err != nil {
		return last
	}
	for _, entry := range secret.ManagedFields {
		if entry.Time != nil && entry.Time.After(last.at) {
			last.at, last.by = entry.Time.Time, untrusted.Token(entry.Manager)
		}
	}
	return last
}

// atDue makes the next attempt come when the first pending object may lose its finalizers, if that is sooner.
func (r *reconciler) atDue(work *run, result reconcile.Result, pending []prune.Outcome) reconcile.Result {
	due := prune.Due(pending)
	if due.IsZero() {
		return result
	}
	r.memory.retryBy(work.name, due)
	return sooner(result, max(due.Sub(r.clock.Now()), busyRetry))
}
