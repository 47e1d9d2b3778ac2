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

// settledMost is how long a target is taken as settled at most. What nobody tells of, such as the labels of a namespace
// by which a class selects it, is found then.
const settledMost = 5 * time.Minute

// sweepPeriod is how often sweep looks which settled targets are due, unless sync periods are as short.
const sweepPeriod = time.Second

// settled is a target of which there was nothing to say, and nothing to wait for.
type settled struct {
	version string      // of its TargetCluster
	seen    observation // without ManagedResources: of these it is told
	until   time.Time   // the latest
	look    time.Time   // when to see whether it still is
}

// settle notes that nothing will be to be said of a target until next, unless something happens. Zero: for long. A
// target of which anything but good is said is never settled: how long it lasts, and why, changes in more ways. It
// returns whether the target is. version is that of its TargetCluster after the last write: another one is somebody
// else's.
func (r *reconciler) settle(key clustercache.ClusterKey, version string, said []metav1.Condition, o observation, next time.Time) bool {
	if summary(said) != hubv1alpha1.StatusHealthy || !o.connected() || o.conflict != nil || o.nodes.Fault != nil || r.Members != nil && !o.membersKnown {
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
	r.settled[key] = settled{version: version, seen: o, until: until, look: o.now.Add(r.nextLook())}
	return true
}

func (r *reconciler) unsettle(key clustercache.ClusterKey) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.settled, key)
}

// staysSettled tells whether a target is as it was when there was nothing to say, which has it looked at again a sync
// period later.
func (r *reconciler) staysSettled(tc *hubv1alpha1.TargetCluster, o observation) bool {
	key := client.ObjectKeyFromObject(tc)
	r.mu.Lock()
	s, ok := r.settled[key]
	r.mu.Unlock()
	if !ok || s.version != tc.ResourceVersion || !o.now.Before(s.until) || o.now.Sub(o.sign) > o.rules.monitor || !s.seen.sameAs(&o) {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if s, ok = r.settled[key]; ok { // it may have been settled anew meanwhile
		s.look = o.now.Add(r.nextLook())
		r.settled[key] = s
	}
	return ok
}

// sweep looks at settled targets when that is due, until ctx ends, and enqueues those of which there may be something
// to say. A thousand targets are looked at forty times a second. By way of the queue, each look woke threads, and took
// several times as long as to find that nothing is new.
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

// due returns the settled targets that are to be looked at.
func (r *reconciler) due(now time.Time) (keys []clustercache.ClusterKey) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, s := range r.settled {
		if !now.Before(s.look) || !now.Before(s.until) {
			keys = append(keys, key)
		}
	}
	return keys
}

// stillSettled tells whether a target needs no reconciliation. One whose look panics needs one, which says so.
func (r *reconciler) stillSettled(ctx context.Context, key clustercache.ClusterKey) (settled bool) {
	defer r.begin()()
	defer func() {
		if recover() != nil {
			settled = false
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, RunTimeout)
	defer cancel()
	told := r.news.of(key)
	tc := &hubv1alpha1.TargetCluster{} // it is only read
	if err := r.Cache.Get(ctx, key, tc, client.UnsafeDisableDeepCopy); err != nil || tc.DeletionTimestamp != nil {
		return false
	}
	status, registered := r.Clusters.GetStatus(key)
	if !registered {
		return false
	}
	o := r.observe(ctx, tc, status)
	o.told = told
	return r.staysSettled(tc, o)
}

// sameAs tells whether two observations of a target say the same, whatever its ManagedResources do. When they were
// made, and when it was probed last, is not compared.
func (o *observation) sameAs(other *observation) bool {
	a, b := o.status, other.status
	a.RoundTrip, b.RoundTrip = 0, 0
	return o.told == other.told && o.registered == other.registered && o.conflict == nil && other.conflict == nil &&
		o.health.ConsecutiveFailures == other.health.ConsecutiveFailures && o.nodes == other.nodes && o.roundTrip == other.roundTrip &&
		o.elsewhere == other.elsewhere && o.paused == other.paused && slices.Equal(o.others, other.others) &&
		o.elsewhereToo == other.elsewhereToo &&
		reflect.DeepEqual(o.facts, other.facts) && reflect.DeepEqual(a, b)
}

// expiryStep is when something else is to be said of the credential, zero if that will never be.
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

// news counts what sources tell of targets.
type news struct {
	mu         sync.Mutex
	namespaces map[string]*namespaceNews // of which a target is known
}

// namespaceNews is what was told of all targets of a namespace, and of each by its name.
type namespaceNews struct {
	all     uint64
	targets map[string]uint64
}

func newNews() *news { return &news{namespaces: map[string]*namespaceNews{}} }

func (n *news) add(keys ...clustercache.ClusterKey) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, key := range keys {
		n.namespaceLocked(key).targets[key.Name]++
	}
}

func (n *news) namespaceLocked(key clustercache.ClusterKey) *namespaceNews {
	told := n.namespaces[key.Namespace]
	if told == nil {
		told = &namespaceNews{targets: map[string]uint64{}}
		n.namespaces[key.Namespace] = told
	}
	return told
}

// ofNamespace is about all targets of one. Those that nobody has asked about yet have no news.
func (n *news) ofNamespace(namespace string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if told := n.namespaces[namespace]; told != nil {
		told.all++
	}
}

// of is the number of the last news of a target.
func (n *news) of(key clustercache.ClusterKey) uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	told := n.namespaceLocked(key)
	number := told.targets[key.Name]
	told.targets[key.Name] = number // it is asked about from now on
	return told.all + number
}

// forget drops what was counted of a target, which has no TargetCluster any more.
func (n *news) forget(key clustercache.ClusterKey) {
	n.mu.Lock()
	defer n.mu.Unlock()
	told := n.namespaces[key.Namespace]
	if told == nil {
		return
	}
	if delete(told.targets, key.Name); len(told.targets) == 0 {
		delete(n.namespaces, key.Namespace)
	}
}
