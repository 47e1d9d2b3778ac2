package identity

import (
	"cmp"
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
)

// Claim is what a TargetCluster says of the cluster behind its registration. The zero value is no claim.
type Claim struct {
	UID   types.UID
	Since time.Time
	// Released is true if the registration is gone. Its TargetCluster stays until nothing is left in the target.
	Released bool
}

// ClaimOf returns the claim of a TargetCluster, which may be nil.
func ClaimOf(tc *hubv1alpha1.TargetCluster) Claim {
	if tc == nil || tc.Status.ClusterUID == "" {
		return Claim{}
	}
	since := tc.CreationTimestamp.Time
	if tc.Status.ClusterUIDSince != nil {
		since = tc.Status.ClusterUIDSince.Time
	}
	// The times of equal claims are equal as values, too.
	return Claim{UID: tc.Status.ClusterUID, Since: since.UTC().Round(0), Released: released(tc)}
}

func released(tc *hubv1alpha1.TargetCluster) bool {
	ready := meta.FindStatusCondition(tc.Status.Conditions, hubv1alpha1.ConditionReady)
	return tc.DeletionTimestamp != nil || ready != nil && ready.Reason == hubv1alpha1.ReasonRegistrationGone
}

// Holders know for which of several registrations of a cluster the controllers in targets work: the one whose
// TargetCluster has had the UID of the cluster for the longest. They answer from the informer of TargetClusters, so
// that a replica that begins knows what the previous one knew. Make them with NewHolders. Nil Holders: each
// registration holds its cluster.
//
// Any server can claim any UID. One that claims that of a cluster which is registered already is later than that
// cluster, and gets nothing by it: another UID has another time, and the guard lets it pass only if it is confirmed.
type Holders struct {
	informers cache.Cache
	source    clustercache.ClusterKey
}

// NewHolders returns holders that know nothing until Register. source is the key of the source as a target if the
// configuration has controllers for it, which comes before any registration; zero if it has none.
func NewHolders(informers cache.Cache, source clustercache.ClusterKey) *Holders {
	return &Holders{informers: informers, source: source}
}

// uidField is the name of the index of TargetClusters by the UID of their cluster.
const uidField = "status.clusterUID"

// Register has the informer of TargetClusters keep an index. That can be done once for each informer.
func (h *Holders) Register(ctx context.Context) error {
	err := h.informers.IndexField(ctx, &hubv1alpha1.TargetCluster{}, uidField, func(obj client.Object) []string {
		if tc, is := obj.(*hubv1alpha1.TargetCluster); is && tc.Status.ClusterUID != "" {
			return []string{string(tc.Status.ClusterUID)}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("indexing TargetClusters by %s: %w", uidField, err)
	}
	return nil
}

// Of returns the holder of the cluster with a UID; false if there is none, or that is not known.
func (h *Holders) Of(uid types.UID) (holder clustercache.ClusterKey, held bool) {
	if h == nil || uid == "" {
		return holder, false
	}
	if is, err := h.isSource(uid); is || err != nil {
		return h.source, is
	}
	var first Claim
	for _, tc := range h.claimants(uid) {
		key, claim := client.ObjectKeyFromObject(&tc), ClaimOf(&tc)
		if claim.Released {
			continue
		}
		if !held || before(claim, key, first, holder) {
			holder, first, held = key, claim, true
		}
	}
	return holder, held
}

func before(a Claim, aKey clustercache.ClusterKey, b Claim, bKey clustercache.ClusterKey) bool {
	return cmp.Or(a.Since.Compare(b.Since),
		cmp.Compare(aKey.Namespace, bKey.Namespace), cmp.Compare(aKey.Name, bKey.Name)) < 0
}

// Holds reports whether controllers may work for a target. tc is its TargetCluster, nil if it has none; of target,
// Cluster and UID are looked at. A registration has to wait until its TargetCluster has the UID of the cluster: before
// that, controllers could begin for two registrations at once.
func (h *Holders) Holds(target clustercache.Status, tc *hubv1alpha1.TargetCluster) bool {
	if h == nil || target.Cluster.Namespace == "" {
		return true
	}
	claim := ClaimOf(tc)
	if claim.UID == "" || target.UID != "" && target.UID != claim.UID {
		return false
	}
	holder, held := h.Of(claim.UID)
	return held && holder == target.Cluster
}

// Claimants returns all registrations that claim to be the cluster with a UID.
func (h *Holders) Claimants(uid types.UID) (keys []clustercache.ClusterKey) {
	if h == nil || uid == "" {
		return nil
	}
	for _, tc := range h.claimants(uid) {
		keys = append(keys, client.ObjectKeyFromObject(&tc))
	}
	return keys
}

// After returns the given time, or the first one after all claims to a cluster if that is later: which claim is the
// first does not depend on clocks that go back, or differ between replicas.
func (h *Holders) After(uid types.UID, now time.Time) metav1.MicroTime {
	now = now.Truncate(time.Microsecond)
	if h != nil {
		for _, tc := range h.claimants(uid) {
			if since := ClaimOf(&tc).Since; !since.Before(now) {
				now = since.Add(time.Microsecond)
			}
		}
	}
	return metav1.NewMicroTime(now)
}

// claimants are the TargetClusters with a UID. They belong to the informer.
func (h *Holders) claimants(uid types.UID) []hubv1alpha1.TargetCluster {
	list := &hubv1alpha1.TargetClusterList{}
	// The informer answers from memory. If it fails, no registration holds its cluster, and no controller works.
	err := h.informers.List(context.Background(), list, client.MatchingFields{uidField: string(uid)},
		client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil
	}
	return list.Items
}

// isSource reports whether a UID is that of the source, and the source is a target with controllers. The source is
// known before any target is connected: it need not be connected as a target for that.
func (h *Holders) isSource(uid types.UID) (bool, error) {
	if h.source == (clustercache.ClusterKey{}) {
		return false, nil
	}
	system := &corev1.Namespace{}
	err := h.informers.Get(context.Background(), client.ObjectKey{Name: metav1.NamespaceSystem}, system,
		client.UnsafeDisableDeepCopy)
	if err != nil {
		return false, fmt.Errorf("reading the UID of the source: %w", err)
	}
	return system.UID == uid, nil
}
