package targetcluster

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/controllers/targetcluster/care"
	"github.com/trellis-hub/trellis/untrusted"
)

const (
	actionObserve = "Observe"

	// reasonIdentityConfirmed is that of the event about a target that is another cluster from now on.
	reasonIdentityConfirmed = "IdentityConfirmed"
	// reasonWentBack is that of the event about a target whose history is another one from now on.
	reasonWentBack = "WentBackInTime"

	// maxNote is what the API allows for the note of an event.
	maxNote = 1024

	// eventsAtOnce may be written about one TargetCluster, and one more every eventPause: what comes and goes once a
	// second shall not fill the source. What says which cluster a target is has a budget of its own, so that nothing else
	// uses it up.
	eventsAtOnce = 15
	eventPause   = 30 * time.Second
)

// recorder emits events about TargetClusters.
type recorder struct {
	events events.EventRecorder
	clock  clock.PassiveClock

	mu      sync.Mutex
	budgets map[types.NamespacedName]*budget // of those that had events in this term
	rewinds map[types.NamespacedName]int64   // how often they had gone back in time at the last observation in this term
}

// budget is what may be written about one TargetCluster.
type budget struct {
	identity, others *rate.Limiter
	leftOut          int // events since the last one that was written
}

// rewound records an event if a target went back in time since the last observation in this term. Before the first one,
// the previous leader recorded it.
func (r *recorder) rewound(tc *hubv1alpha1.TargetCluster, rewinds int64) {
	key := types.NamespacedName{Namespace: tc.Namespace, Name: tc.Name}
	r.mu.Lock()
	before, known := r.rewinds[key]
	r.rewinds[key] = rewinds
	r.mu.Unlock()
	if known && rewinds > before {
		r.emit(tc, corev1.EventTypeWarning, reasonWentBack,
			"the cluster went back in time, as when its etcd is restored from a backup; everything in it is checked again")
	}
}

func newBudget() *budget {
	return &budget{identity: rate.NewLimiter(rate.Every(eventPause), eventsAtOnce),
		others: rate.NewLimiter(rate.Every(eventPause), eventsAtOnce)}
}

// of returns the part for events with a reason.
func (b *budget) of(reason string) *rate.Limiter {
	switch reason {
	case reasonIdentityConfirmed, reasonWentBack, hubv1alpha1.ReasonIdentityChanged,
		hubv1alpha1.ReasonDuplicateRegistration:
		return b.identity
	default:
		return b.others
	}
}

func newRecorder(to events.EventRecorder, clock clock.PassiveClock) *recorder {
	return &recorder{events: to, clock: clock, budgets: map[types.NamespacedName]*budget{},
		rewinds: map[types.NamespacedName]int64{}}
}

// may takes an event from the budget of a TargetCluster, if there is one left, and returns how many were left out
// before it.
func (r *recorder) may(key types.NamespacedName, reason string) (leftOut int, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	b := r.budgets[key]
	if b == nil {
		b = newBudget()
		r.budgets[key] = b
	}
	if !b.of(reason).AllowN(r.clock.Now(), 1) {
		b.leftOut++
		return 0, false
	}
	leftOut, b.leftOut = b.leftOut, 0
	return leftOut, true
}

// forget forgets what is remembered of a TargetCluster that is gone.
func (r *recorder) forget(key types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.budgets, key)
	delete(r.rewinds, key)
}

// statusChanged records events for the difference between an older status and the one that a TargetCluster has now.
// Conditions with a common cause have the same reason and make one event.
func (r *recorder) statusChanged(tc *hubv1alpha1.TargetCluster, before hubv1alpha1.TargetClusterStatus) {
	if before.ClusterUID != "" && before.ClusterUID != tc.Status.ClusterUID {
		r.identityConfirmed(tc, before.ClusterUID)
	}
	reported := map[string]bool{}
	for _, now := range inOrder(tc.Status.Conditions) {
		old := meta.FindStatusCondition(before.Conditions, now.Type)
		if old != nil && old.Status == now.Status && old.Reason == now.Reason || reported[now.Reason] {
			continue
		}
		// What sums up ManagedResources is about others in each condition.
		if r.conditionChanged(tc, now) && !care.Concerns(now.Type) {
			reported[now.Reason] = true
		}
	}
}

// inOrder returns conditions so that those come first which name causes.
func inOrder(conditions []metav1.Condition) []metav1.Condition {
	order := []string{
		hubv1alpha1.ConditionReady, hubv1alpha1.ConditionConnected, hubv1alpha1.ConditionCredentialsValid,
		hubv1alpha1.ConditionAPIServerAvailable, hubv1alpha1.ConditionEveryNodeReady, hubv1alpha1.ConditionHubReady,
		hubv1alpha1.ConditionDuplicateRegistration,
	}
	rank := func(c metav1.Condition) int {
		if i := slices.Index(order, c.Type); i >= 0 {
			return i
		}
		return len(order)
	}
	return slices.SortedStableFunc(slices.Values(conditions), func(a, b metav1.Condition) int { return rank(a) - rank(b) })
}

// conditionChanged records an event for a condition with a new status or reason, if that is worth it: what is wrong,
// what is worth a warning, and that the target is ready.
func (r *recorder) conditionChanged(tc *hubv1alpha1.TargetCluster, condition metav1.Condition) bool {
	warning := condition.Status == metav1.ConditionFalse && !isFailing(condition.Reason) ||
		condition.Reason == hubv1alpha1.ReasonTargetStatusUnknown ||
		condition.Reason == hubv1alpha1.ReasonDuplicateRegistration ||
		condition.Reason == hubv1alpha1.ReasonCredentialsExpireSoon
	switch {
	case warning:
		r.emit(tc, corev1.EventTypeWarning, condition.Reason, condition.Message)
	case condition.Type == hubv1alpha1.ConditionReady && condition.Status == metav1.ConditionTrue:
		r.emit(tc, corev1.EventTypeNormal, condition.Reason, condition.Message)
	default:
		return false
	}
	return true
}

// identityConfirmed records an event that the target is another cluster than before, because a user confirmed it.
func (r *recorder) identityConfirmed(tc *hubv1alpha1.TargetCluster, before types.UID) {
	r.emit(tc, corev1.EventTypeNormal, reasonIdentityConfirmed,
		"the target is the cluster with UID "+string(tc.Status.ClusterUID)+" from now on, it was the one with UID "+string(
			before))
}

func (r *recorder) emit(tc *hubv1alpha1.TargetCluster, eventType, reason, note string) {
	leftOut, ok := r.may(types.NamespacedName{Namespace: tc.Namespace, Name: tc.Name}, reason)
	if !ok {
		return
	}
	if leftOut > 0 {
		note = fmt.Sprintf("(after %d events that were left out) %s", leftOut, note)
	}
	r.events.Eventf(tc, nil, eventType, reason, actionObserve, "%s", untrusted.Text(note, maxNote))
}
