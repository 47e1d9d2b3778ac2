package managedresource

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/controllers/managedresource/apply"
	"github.com/trellis-hub/trellis/controllers/managedresource/inventory"
	"github.com/trellis-hub/trellis/controllers/managedresource/prune"
	"github.com/trellis-hub/trellis/controllers/managedresource/sharing"
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
	return prune.Target{Metadata: target.Metadata, Deletes: deletes, Client: target.Client, Mapper: target.Mapper}, nil
}

// prunePolicy says what may be deleted in the cluster with a UID: what no other ManagedResource lists that has its objects
// there. desired is what this one wants to keep there.
func (r *reconciler) prunePolicy(work *run, uid types.UID, desired []resourcesv1alpha1.ObjectReference) prune.Policy {
	holder := func(match func(inventory.Key) bool) string {
		if slices.ContainsFunc(desired, func(ref resourcesv1alpha1.ObjectReference) bool { return match(inventory.KeyOf(ref)) }) {
			return "this ManagedResource"
		}
		for _, cluster := range []types.UID{uid, sharing.Unbound(work.name.Namespace, work.class.Finalizer)} {
			if _, by, found := r.shared.Any(cluster, work.name, match); found {
				return "ManagedResource " + by.String()
			}
		}
		return ""
	}
	return prune.Policy{
		Origin: work.origin(), FieldManager: r.applier.FieldManager, Parallel: r.applier.Parallel, Clock: r.clock,
		KeepGarbageCollectable:       r.keepGarbageCollectable,
		DeletePersistentVolumeClaims: deref(work.mr.Spec.DeletePersistentVolumeClaims),
		ListedByOther:                func(k inventory.Key) bool { return len(r.others(work, uid, k)) > 0 },
		GiveUp: func(k inventory.Key) bool {
			return r.shared.GiveUp(work.name, k, uid, sharing.Unbound(work.name.Namespace, work.class.Finalizer))
		},
		HolderIn: func(namespace string) string {
			return holder(func(k inventory.Key) bool { return k.Namespace == namespace })
		},
		HolderOf: func(gk schema.GroupKind) string {
			return holder(func(k inventory.Key) bool { return k.GroupKind() == gk })
		},
	}
}

// release takes our marks off objects that are not managed any more, and returns what failed.
func (r *reconciler) release(ctx context.Context, work *run, target apply.Target, refs []resourcesv1alpha1.ObjectReference) map[inventory.Key]error {
	failed := map[inventory.Key]error{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	slots := make(chan struct{}, max(r.applier.Parallel, 1))
	for _, ref := range refs {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			at := prune.Target{Metadata: target.Metadata, Client: target.Client, Mapper: target.Mapper}
			if err := prune.Release(ctx, at, ref, work.origin(), r.applier.FieldManager); err != nil {
				mu.Lock()
				defer mu.Unlock()
				failed[inventory.KeyOf(ref)] = err
			}
		})
	}
	wg.Wait()
	return failed
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
