package objects

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/controllers/managedresource/run"
	"github.com/trellis-hub/trellis/controllers/managedresource/source/assignment"
	"github.com/trellis-hub/trellis/controllers/managedresource/source/sharing"
	"github.com/trellis-hub/trellis/engine/apply"
	"github.com/trellis-hub/trellis/engine/inventory"
	"github.com/trellis-hub/trellis/engine/prune"
)

// Sharers are the other ManagedResources that may have a say in the objects of one, in one cluster.
type Sharers struct {
	index     *sharing.Index
	classes   map[string]*assignment.Class
	subject   *run.Subject
	locations []sharing.Location
	// verified takes those of other namespaces that were verified; possible also those that may be yet, in the beginning
	// of a term.
	verified, possible sharing.Verifier
}

// Neighbours finds the sharers of a ManagedResource.
type Neighbours struct {
	Index    *sharing.Index
	Assigner *assignment.Assigner
}

// Of finds the other ManagedResources that count in the cluster which one is bound to.
func (n *Neighbours) Of(ctx context.Context, s *run.Subject) *Sharers {
	return n.In(ctx, s, s.BoundUID(), s.Target)
}

// In finds those that count in the cluster with a UID that is reached through a target. Those that a Gardener
// resource manager left to this hub, and that were not reconciled yet, count by their namespace: their objects are
// where those of their neighbours are.
func (n *Neighbours) In(ctx context.Context, s *run.Subject, uid types.UID, through clustercache.ClusterKey) *Sharers {
	access := func(namespace string) assignment.Access {
		return n.Assigner.AccessTo(ctx, namespace, uid, through)
	}
	return &Sharers{
		index: n.Index, classes: n.Assigner.Classes, subject: s,
		locations: []sharing.Location{
			sharing.Cluster(uid), sharing.Unbound{Namespace: s.Name.Namespace, Finalizer: s.Class.Finalizer},
		},
		verified: func(namespace string) bool { return access(namespace) == assignment.HasAccess },
		possible: func(namespace string) bool { return access(namespace) != assignment.NoAccess },
	}
}

// of returns the other ManagedResources that list an object and count as its owners.
func (sh *Sharers) of(key inventory.Key) []types.NamespacedName { return sh.find(key, sh.verified) }

// owners returns the other ManagedResources that an object may belong to. Those of which it is not known yet whether
// they count are included: what is theirs is left as it is meanwhile.
func (sh *Sharers) owners(key inventory.Key) []types.NamespacedName { return sh.find(key, sh.possible) }

// undecided reports whether others list an object of which it is not known yet whether they count, and none
// counts for certain.
func (sh *Sharers) undecided(key inventory.Key) bool {
	return len(sh.owners(key)) > 0 && len(sh.of(key)) == 0
}

func (sh *Sharers) find(key inventory.Key, by sharing.Verifier) (others []types.NamespacedName) {
	for _, location := range sh.locations {
		others = append(others, sh.index.Others(location, key, sh.subject.Name, by)...)
	}
	return others
}

// any names one that lists an object for which match is true, or may count as its owner; empty if there is none.
// ManagedResources of other namespaces are not named.
func (sh *Sharers) any(match func(inventory.Key) bool) string {
	for _, location := range sh.locations {
		if _, by, found := sh.index.Any(location, sh.subject.Name, sh.possible, match); found {
			if by.Namespace != sh.subject.Name.Namespace {
				return "a ManagedResource of another namespace"
			}
			return "ManagedResource " + by.String()
		}
	}
	return ""
}

// ownerOf returns another ManagedResource that lists a live object in the same cluster, if the object belongs to it.
// Its origin names its last writer; a ManagedResource that does not list it any longer, or does not exist, owns
// nothing, and neither does one that does not count.
func (sh *Sharers) ownerOf(key inventory.Key, live metav1.Object) (owner types.NamespacedName, owned bool) {
	origin := live.GetAnnotations()[resourcesv1alpha1.OriginAnnotation]
	if origin == "" || origin == sh.subject.Origin() {
		return owner, false
	}
	for _, other := range sh.owners(key) {
		for _, class := range sh.classes {
			if class.Origin(other) == origin {
				return other, true
			}
		}
	}
	return owner, false
}

// Abandoned returns the objects that were left to ManagedResources that no longer count as their owners.
func (sh *Sharers) Abandoned(yields map[inventory.Key]types.NamespacedName) (keys []inventory.Key) {
	for key := range yields {
		if len(sh.owners(key)) == 0 {
			keys = append(keys, key)
		}
	}
	return keys
}

// PrunePolicy says what may be deleted: what no other ManagedResource lists that has a say there. desired is what this
// one wants to keep.
func (o *Writer) PrunePolicy(sh *Sharers, desired []resourcesv1alpha1.ObjectReference) prune.Policy {
	s := sh.subject
	wanted := sets.Set[inventory.Key]{}
	for _, ref := range desired {
		wanted.Insert(inventory.KeyOf(ref))
	}
	holder := func(match func(inventory.Key) bool) string {
		for key := range wanted {
			if match(key) {
				return "this ManagedResource"
			}
		}
		return sh.any(match)
	}
	return prune.Policy{
		Origin: s.Origin(), FieldManager: o.Applier.FieldManager, Parallel: o.Applier.Parallel, Clock: s.Clock,
		KeepGarbageCollectable:       o.KeepGarbageCollectable != nil && o.KeepGarbageCollectable(s.Target),
		DeletePersistentVolumeClaims: ptr.Deref(s.MR.Spec.DeletePersistentVolumeClaims, false),
		Undecided:                    sh.undecided,
		ListedByOther:                func(k inventory.Key) bool { return len(sh.of(k)) > 0 },
		Disclaim:                     func(k inventory.Key) { sh.index.Decline(s.Name, k) },
		Wanted:                       wanted.Has,
		GiveUp: func(k inventory.Key) bool {
			return sh.index.GiveUp(s.Name, k, sh.verified, sh.locations...)
		},
		HolderIn: func(namespace string) string {
			return holder(func(k inventory.Key) bool { return k.Namespace == namespace })
		},
		HolderOf: func(gk schema.GroupKind) string {
			return holder(func(k inventory.Key) bool { return k.GroupKind() == gk })
		},
	}
}

// Yield looks at the objects that other ManagedResources list, too, before they are written. Those that another one
// took are accepted as they are, and returned with their outcome. One that cannot be looked at may belong to another
// one: it fails, alone. One that was not in the inventory with a UID before was never applied by this ManagedResource:
// it is the last to list it, and takes it.
func (o *Writer) Yield(
	ctx context.Context, sh *Sharers, before []resourcesv1alpha1.ObjectReference, all []apply.Intent,
) map[inventory.Key]apply.Outcome {
	s := sh.subject
	known, were, now := inventory.Index(before), s.State.Yields, s.Clock.Now()
	var shared []apply.Intent
	for _, in := range all {
		if ref := known[in.Key]; ref != nil && ref.UID != "" && len(sh.owners(in.Key)) > 0 {
			shared = append(shared, in)
		}
	}
	yields := map[inventory.Key]types.NamespacedName{}
	outcomes := map[inventory.Key]apply.Outcome{}
	for i, head := range o.heads(ctx, s.Access, shared) {
		key := shared[i].Key
		switch {
		case head.absent():
			// Its owner has time to bring it back; after that, corrections do.
			if owner, left := were[key]; left && s.State.LeaveTo(key, now) > 0 {
				yields[key] = owner
				outcomes[key] = apply.Outcome{Key: key, UID: known[key].UID, Unchanged: true}
			}
		case head.err != nil:
			outcomes[key] = apply.Outcome{Key: key, Err: fmt.Errorf("finding out who owns it: %w", head.err)}
			if owner, left := were[key]; left {
				yields[key] = owner
			}
		default:
			owner, owned := sh.ownerOf(key, head.live)
			if !owned {
				continue
			}
			yields[key] = owner
			accepted := o.acceptForeign(s, key, head.live)
			outcomes[key] = apply.Outcome{
				Key: key, UID: accepted.UID, ResourceVersion: accepted.ResourceVersion, State: accepted.State, Unchanged: true,
			}
		}
	}
	s.State.Yield(yields)
	return outcomes
}
