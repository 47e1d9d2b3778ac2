package targetcluster

import (
	"time"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
)

// draft is a status that was derived and waits to be written, or its label does. When hundreds of targets are lost
// together, nearly all wait twice; to observe each again for the second write, ManagedResources included, would find
// the same.
type draft struct {
	tc      *hubv1alpha1.TargetCluster // as it is to be
	version string                     // of the one that it was made for
	before  string                     // the version that this reconciliation overwrote
	seen    observation                // without ManagedResources: there are events of these
	fails   bool                       // whether a check does
	next    time.Time                  // when it may change although nothing happens, zero if never
	again   time.Time                  // when the target is to be observed again in any case
}

// standsFor reports whether another observation of a target would find the same. What there are no events of is found
// by the next observation that is due, as for targets without a draft.
func (d draft) standsFor(tc *hubv1alpha1.TargetCluster, revision uint64, now time.Time) bool {
	return tc != nil && d.tc != nil && tc.DeletionTimestamp == nil && tc.UID == d.tc.UID &&
		tc.ResourceVersion == d.version &&
		d.seen.revision == revision && now.Before(d.again)
}

// isAhead reports whether the informer does not show yet what was written. Another write would be based on what is
// outdated, and fail.
func (d draft) isAhead(tc *hubv1alpha1.TargetCluster, now time.Time) bool {
	return tc != nil && d.tc != nil && tc.UID == d.tc.UID && tc.ResourceVersion == d.before && d.before != d.version &&
		now.Before(d.again)
}

// asSeen reports whether the state of a target is what it was when a draft was made. The event of a change may still be
// on its way.
func (r *reconciler) asSeen(key clustercache.ClusterKey, d draft) bool {
	status, registered := r.Clusters.GetStatus(key)
	status = withStableReason(status)
	return registered && status.State == d.seen.status.State && status.Reason == d.seen.status.Reason
}

// takeDraft removes and returns the draft of a target; empty if there is none.
func (r *reconciler) takeDraft(key clustercache.ClusterKey) draft {
	r.mu.Lock()
	defer r.mu.Unlock()
	d := r.drafts[key]
	delete(r.drafts, key)
	return d
}

func (r *reconciler) keepDraft(key clustercache.ClusterKey, d draft) {
	d.seen.members = nil
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drafts[key] = d
}
