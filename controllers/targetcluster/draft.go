package targetcluster

import (
	"time"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
)

// draft is what a look has found, while its status or its label waits to be written. When hundreds of targets are lost
// together, nearly all wait twice, and there is nothing new at the end: another look at each would list its
// ManagedResources and judge them for nothing.
type draft struct {
	tc      *hubv1alpha1.TargetCluster // as it is to be
	version string                     // of the one that it was made for
	before  string                     // the version that this look wrote over
	seen    observation                // without ManagedResources: of these it is told
	fails   bool                       // whether a check does
	next    time.Time                  // when something else may be to be said, zero if never
	again   time.Time                  // when there has to be another look, whatever happens
}

// standsFor tells whether another look at a TargetCluster would find the same. What nobody tells of waits until there
// is one, as it does at targets of which nothing waits.
func (d draft) standsFor(tc *hubv1alpha1.TargetCluster, told uint64, now time.Time) bool {
	return tc != nil && d.tc != nil && tc.DeletionTimestamp == nil && tc.UID == d.tc.UID && tc.ResourceVersion == d.version &&
		d.seen.told == told && now.Before(d.again)
}

// isAhead tells whether the informer has not seen yet what was written, which a busy source is slow to tell. Another
// look would only write over what is outdated, and fail.
func (d draft) isAhead(tc *hubv1alpha1.TargetCluster, now time.Time) bool {
	return tc != nil && d.tc != nil && tc.UID == d.tc.UID && tc.ResourceVersion == d.before && d.before != d.version && now.Before(d.again)
}

// asSeen tells whether a target is what it was when a draft was made. It may have changed just now, and nobody was told
// yet.
func (r *reconciler) asSeen(key clustercache.ClusterKey, d draft) bool {
	status, registered := r.Clusters.GetStatus(key)
	status = asTold(status)
	return registered && status.State == d.seen.status.State && status.Reason == d.seen.status.Reason
}

// takeDraft returns what waits of a target, which does so no more; nothing if nothing waits.
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
