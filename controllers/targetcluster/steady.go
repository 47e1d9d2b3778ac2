package targetcluster

import (
	"context"
	"reflect"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
)

// settledMost is how long a target is taken as settled at most. Changes without an event, such as those of the labels
// of a namespace by which a class selects it, are found then.
const settledMost = 5 * time.Minute

// sweepPeriod is how often sweep checks which settled targets are due, unless sync periods are as short.
const sweepPeriod = time.Second

// settled is a target whose status is up to date, with nothing to wait for.
type settled struct {
	version   string      // of its TargetCluster
	seen      observation // without ManagedResources: there are events of these
	until     time.Time   // the latest
	compareAt time.Time   // when to compare it next
}

// settle notes that the status of a target stays as it is until next, unless something happens; zero: for long. It
// returns whether the target is settled. One that is not healthy never is, because its durations and causes change in
// more ways. version is that of its TargetCluster after the last write: another one means that another client wrote.
func (r *reconciler) settle(key clustercache.ClusterKey, version string, said []metav1.Condition, o observation,
	next time.Time) bool {
	if summary(said) != hubv1alpha1.StatusHealthy || !o.connected() || o.conflict != nil || o.nodes.Fault != nil ||
		r.Members != nil && !o.membersKnown {
		return false
	}
	until := o.now.Add(settledMost)
	for _, then := range []time.Time{next, o.expiryStep()} {
		if !then.IsZero() && then.Before(until) {
			until = then
		}
	}
	o.members = nil
	r.mu.Lock()
	defer r.mu.Unlock()
	r.settled[key] = settled{version: version, seen: o, until: until, compareAt: o.now.Add(r.nextLook())}
	return true
}

func (r *reconciler) unsettle(key clustercache.ClusterKey) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.settled, key)
}

// staysSettled reports whether a target is as it was when it was settled. It is compared again a sync period later.
func (r *reconciler) staysSettled(tc *hubv1alpha1.TargetCluster, o observation) bool {
	key := client.ObjectKeyFromObject(tc)
	r.mu.Lock()
	s, ok := r.settled[key]
	r.mu.Unlock()
	if !ok || s.version != tc.ResourceVersion || !o.now.Before(s.until) || o.now.Sub(o.sign) > o.rules.monitor ||
		!s.seen.sameAs(&o) {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if s, ok = r.settled[key]; ok { // it may have been settled again meanwhile
		s.compareAt = o.now.Add(r.nextLook())
		r.settled[key] = s
	}
	return ok
}

// sweep compares settled targets when that is due, until ctx ends, and enqueues those that have changed. With a
// thousand targets there are forty comparisons a second, which cost several times as much by way of the queue and its
// workers.
func (r *reconciler) sweep(ctx context.Context, enqueue func(...clustercache.ClusterKey)) {
	ticker := time.NewTicker(min(sweepPeriod, max(r.SyncPeriod/8, time.Millisecond)))
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		for _, key := range r.due(r.Clock.Now()) {
			if !r.stillSettled(ctx, key) {
				r.unsettle(key)
				enqueue(key)
			}
		}
	}
}

// due returns the settled targets that are to be compared.
func (r *reconciler) due(now time.Time) (keys []clustercache.ClusterKey) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, s := range r.settled {
		if !now.Before(s.compareAt) || !now.Before(s.until) {
			keys = append(keys, key)
		}
	}
	return keys
}

// stillSettled reports whether a target needs no reconciliation. If the comparison panics it needs one, which reports
// it.
func (r *reconciler) stillSettled(ctx context.Context, key clustercache.ClusterKey) (settled bool) {
	defer r.begin()()
	defer func() {
		if recover() != nil {
			settled = false
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, RunTimeout)
	defer cancel()
	revision := r.revisions.of(key)
	tc := &hubv1alpha1.TargetCluster{} // it is only read
	if err := r.Cache.Get(ctx, key, tc, client.UnsafeDisableDeepCopy); err != nil || tc.DeletionTimestamp != nil {
		return false
	}
	status, registered := r.Clusters.GetStatus(key)
	if !registered {
		return false
	}
	o := r.observe(ctx, tc, status)
	o.revision = revision
	return r.staysSettled(tc, o)
}

// sameAs reports whether two observations of a target say the same, whatever its ManagedResources do. When they were
// made, and when it was probed last, is not compared.
func (o *observation) sameAs(other *observation) bool {
	a, b := o.status, other.status
	a.RoundTrip, b.RoundTrip = 0, 0
	return o.revision == other.revision && o.registered == other.registered && o.conflict == nil &&
		other.conflict == nil &&
		o.health.ConsecutiveFailures == other.health.ConsecutiveFailures && o.nodes == other.nodes &&
		o.roundTrip == other.roundTrip &&
		o.elsewhere == other.elsewhere && o.paused == other.paused && slices.Equal(o.others, other.others) &&
		o.elsewhereToo == other.elsewhereToo && o.holder == other.holder &&
		reflect.DeepEqual(o.facts, other.facts) && reflect.DeepEqual(a, b)
}

// expiryStep is when the condition about the credential changes next, zero if it never will.
func (o *observation) expiryStep() (next time.Time) {
	end, ends := o.credentialEnds()
	if !ends {
		return next
	}
	for _, before := range append([]time.Duration{0, warnBefore(o.status.CredentialIssued, end)}, expirySteps()...) {
		if at := end.Add(-before); !at.Before(o.now) && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	return next
}

// revisions count what sources have reported of targets, so that an observation is known to be out of date.
type revisions struct {
	mu         sync.Mutex
	namespaces map[string]*namespaceRevisions // of which a target is known
}

// namespaceRevisions count what was reported of all targets of a namespace, and of each by its name.
type namespaceRevisions struct {
	all     uint64
	targets map[string]uint64
}

func newRevisions() *revisions { return &revisions{namespaces: map[string]*namespaceRevisions{}} }

func (n *revisions) add(keys ...clustercache.ClusterKey) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, key := range keys {
		n.namespaceLocked(key).targets[key.Name]++
	}
}

func (n *revisions) namespaceLocked(key clustercache.ClusterKey) *namespaceRevisions {
	namespace := n.namespaces[key.Namespace]
	if namespace == nil {
		namespace = &namespaceRevisions{targets: map[string]uint64{}}
		n.namespaces[key.Namespace] = namespace
	}
	return namespace
}

// addNamespace counts for all targets of a namespace that were asked about.
func (n *revisions) addNamespace(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if namespace := n.namespaces[name]; namespace != nil {
		namespace.all++
	}
}

// of returns the revision of a target.
func (n *revisions) of(key clustercache.ClusterKey) uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	namespace := n.namespaceLocked(key)
	number := namespace.targets[key.Name]
	namespace.targets[key.Name] = number // it is counted from now on
	return namespace.all + number
}

// forget drops what was counted of a target whose TargetCluster is gone.
func (n *revisions) forget(key clustercache.ClusterKey) {
	n.mu.Lock()
	defer n.mu.Unlock()
	namespace := n.namespaces[key.Namespace]
	if namespace == nil {
		return
	}
	if delete(namespace.targets, key.Name); len(namespace.targets) == 0 {
		delete(n.namespaces, key.Namespace)
	}
}
