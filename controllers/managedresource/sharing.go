package managedresource

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/controllers/managedresource/observe/tracker"
	"github.com/trellis-hub/trellis/controllers/managedresource/source/assignment"
	"github.com/trellis-hub/trellis/controllers/managedresource/source/sharing"
	"github.com/trellis-hub/trellis/engine/apply"
	"github.com/trellis-hub/trellis/engine/inventory"
	"github.com/trellis-hub/trellis/engine/ownership"
)

// ownerGrace is how long the owner of a shared object has to bring it back before another one that lists it does.
const ownerGrace = 10 * time.Second

// sharers are the other ManagedResources that may have a say in the objects of one, in the cluster with a UID that it
// reaches through a target.
type sharers struct {
	index  *sharing.Index
	name   types.NamespacedName
	places []sharing.Place
	// verified takes those of other namespaces that were verified; possible also those that may be yet, in the
	// beginning of a term.
	verified, possible sharing.Verifier
}

// sharers finds the other ManagedResources that have a say. Those that a Gardener resource manager left to this hub,
// and that were not reconciled yet, count by their namespace: their objects are where those of their neighbours are.
func (r *reconciler) sharers(ctx context.Context, work *run, uid types.UID, through clustercache.ClusterKey) *sharers {
	return &sharers{
		index: r.shared, name: work.name,
		places: []sharing.Place{sharing.Cluster(uid),
			sharing.Unbound{Namespace: work.name.Namespace, Finalizer: work.class.Finalizer}},
		verified: func(namespace string) bool { return r.claims.SayIn(ctx, namespace, uid, through) == assignment.FullSay },
		possible: func(namespace string) bool { return r.claims.SayIn(ctx, namespace, uid, through) != assignment.NoSay },
	}
}

// of returns the other ManagedResources that list an object and have a say in it.
func (s *sharers) of(key inventory.Key) []types.NamespacedName { return s.find(key, s.verified) }

// undecided tells whether others list an object of which it is not known yet whether they have a say in it, and none
// has one for certain.
func (s *sharers) undecided(key inventory.Key) bool {
	return len(s.find(key, s.possible)) > 0 && len(s.find(key, s.verified)) == 0
}

func (s *sharers) find(key inventory.Key, by sharing.Verifier) (others []types.NamespacedName) {
	for _, place := range s.places {
		others = append(others, s.index.Others(place, key, s.name, by)...)
	}
	return others
}

// any names one that lists an object for which match is true, or may have a say in it; empty if there is none.
// ManagedResources of other namespaces are not named.
func (s *sharers) any(match func(inventory.Key) bool) string {
	for _, place := range s.places {
		if _, by, found := s.index.Any(place, s.name, s.possible, match); found {
			if by.Namespace != s.name.Namespace {
				return "a ManagedResource of another namespace"
			}
			return "ManagedResource " + by.String()
		}
	}
	return ""
}

// owners returns the other ManagedResources that an object may belong to, by what they list in the cluster of one.
// Those of which it is not known yet whether they have a say count: what is theirs is left as it is meanwhile.
func (s *sharers) owners(key inventory.Key) []types.NamespacedName { return s.find(key, s.possible) }

// owners is that of the cluster which a ManagedResource is bound to.
func (r *reconciler) owners(ctx context.Context, work *run, key inventory.Key) []types.NamespacedName {
	return r.sharers(ctx, work, work.clusterUID(), work.target).owners(key)
}

// ownerOf tells whether a live object belongs to another ManagedResource that lists it in the same cluster. Its origin
// names its last writer; a ManagedResource that does not list it any more, or does not exist, owns nothing, and neither
// does one that has no say.
func (r *reconciler) ownerOf(ctx context.Context, work *run, key inventory.Key,
	live metav1.Object) (owner types.NamespacedName, owned bool) {
	origin := live.GetAnnotations()[resourcesv1alpha1.OriginAnnotation]
	if origin == "" || origin == work.origin() {
		return owner, false
	}
	for _, other := range r.owners(ctx, work, key) {
		for _, class := range r.claims.Classes {
			if class.Origin(other) == origin {
				return other, true
			}
		}
	}
	return owner, false
}

// yield looks at the objects that other ManagedResources list, too, before they are written. Those that another one took are
// accepted as they are, and returned with their outcome. One that cannot be looked at may belong to another one: it fails,
// alone. One that is not in the inventory with a UID was never applied by this ManagedResource: it is the last to list it, and
// takes it.
func (r *reconciler) yield(ctx context.Context, work *run, target apply.Target, all []apply.Intent, before []resourcesv1alpha1.ObjectReference) map[inventory.Key]apply.Outcome {
	known, were := inventory.Index(before), r.memory.yields(work.name)
	sharers := r.sharers(ctx, work, work.clusterUID(), work.target)
	var shared []apply.Intent
	for _, in := range all {
		if ref := known[in.Key]; ref != nil && ref.UID != "" && len(sharers.owners(in.Key)) > 0 {
			shared = append(shared, in)
		}
	}
	yields := map[inventory.Key]types.NamespacedName{}
	outcomes := map[inventory.Key]apply.Outcome{}
	for i, head := range r.heads(ctx, target, shared) {
		key := shared[i].Key
		switch {
		case head.absent():
			// Its owner has time to bring it back; after that, corrections do.
			if owner, left := were[key]; left && r.memory.leaveTo(work.name, key, r.clock.Now()) > 0 {
				yields[key] = owner
				outcomes[key] = apply.Outcome{Key: key, UID: known[key].UID, Unchanged: true}
			}
		case head.err != nil:
			outcomes[key] = apply.Outcome{Key: key, Err: fmt.Errorf("finding out who owns it: %w", head.err)}
			if owner, left := were[key]; left {
				yields[key] = owner
			}
		default:
			owner, owned := r.ownerOf(ctx, work, key, head.live)
			if !owned {
				continue
			}
			yields[key] = owner
			accepted := r.acceptForeign(work, key, head.live)
			outcomes[key] = apply.Outcome{Key: key, UID: accepted.UID, ResourceVersion: accepted.ResourceVersion, State: accepted.State, Unchanged: true}
		}
	}
	r.memory.yield(work.name, yields)
	return outcomes
}

// head is what a look at the metadata of an object showed.
type head struct {
	live *metav1.PartialObjectMetadata
	err  error
}

// absent tells whether it is certain that there is no such object.
func (h head) absent() bool { return apierrors.IsNotFound(h.err) || meta.IsNoMatchError(h.err) }

// heads looks at objects, several at a time, and returns what it saw in the same order.
func (r *reconciler) heads(ctx context.Context, target apply.Target, all []apply.Intent) []head {
	heads := make([]head, len(all))
	var looks errgroup.Group
	looks.SetLimit(max(r.applier.Parallel, 1))
	for i, in := range all {
		looks.Go(func() error {
			if ctx.Err() != nil {
				heads[i].err = context.Cause(ctx)
				return nil //nolint:nilerr // it is noted
			}
			heads[i].live, heads[i].err = target.Head(ctx, in)
			return nil
		})
	}
	_ = looks.Wait() // each has its own error
	return heads
}

// acceptForeign takes an object of another ManagedResource as it is: only a change of its ownership is of interest.
func (r *reconciler) acceptForeign(work *run, key inventory.Key, live *metav1.PartialObjectMetadata) tracker.Accepted {
	accepted := tracker.Accepted{UID: live.UID, ResourceVersion: live.ResourceVersion, State: ownership.Observe(live, r.applier.FieldManager)}
	r.tracker.Accept(work.name, key, accepted)
	return accepted
}

// abandoned returns the objects that were left to others who have no say in them any more.
func (r *reconciler) abandoned(ctx context.Context, work *run) []inventory.Key {
	var keys []inventory.Key
	for key := range r.memory.yields(work.name) {
		if len(r.owners(ctx, work, key)) == 0 {
			keys = append(keys, key)
		}
	}
	return keys
}
