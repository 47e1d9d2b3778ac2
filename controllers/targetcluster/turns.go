package targetcluster

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
)

// Hundreds of targets that go, or come back, have something to say within seconds: a status, a label and events each. The source is slow
// for everybody meanwhile. So each kind of news has a pace of its own, after a burst at which one target or a few never wait. That
// a target is new, or back, does not wait at all, but for its label.
const (
	turnsOfChanges = 50 // of conditions, a second: a third of a thousand targets is shown as down after six seconds more
	turnsOfDetails = 20 // figures and wordings
	turnsOfLabels  = 30 // which repeat what conditions say
	// turnKept is how long a turn that has come is kept for a write that has to be tried again. One that is still to come is kept whatever
	// happens: targets that come and go would make the line longer with each time.
	turnKept = 5 * time.Second
)

// turns gives targets their turns to write. Its burst is what it allows in a second.
type turns struct {
	pace *rate.Limiter

	mu     sync.Mutex
	latest time.Time                             // that was asked for: for the limiter, time is not to go back
	when   map[clustercache.ClusterKey]time.Time // of those that have not used theirs
}

func newTurns(perSecond int) *turns {
	return &turns{pace: rate.NewLimiter(rate.Limit(perSecond), perSecond), when: map[clustercache.ClusterKey]time.Time{}}
}

// wait returns how long a target has to wait for its turn. Once that is zero it may write, until used.
func (t *turns) wait(key clustercache.ClusterKey, now time.Time) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	at, ok := t.when[key]
	if !ok || now.Sub(at) > turnKept {
		if now.After(t.latest) {
			t.latest = now
		}
		at = t.latest.Add(t.pace.ReserveN(t.latest, 1).DelayFrom(t.latest))
		t.when[key] = at
	}
	return max(at.Sub(now), 0)
}

// used ends the turn of a target, if it has come. One that is still to come keeps its place in the line.
func (t *turns) used(key clustercache.ClusterKey, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if at, ok := t.when[key]; ok && !at.After(now) {
		delete(t.when, key)
	}
}

// forget forgets a target that is gone.
func (t *turns) forget(key clustercache.ClusterKey) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.when, key)
}

// turn returns how long a status has to wait for its turn, by what is new in it.
func (r *reconciler) turn(key clustercache.ClusterKey, before, after hubv1alpha1.TargetClusterStatus, now time.Time) time.Duration {
	switch {
	case isBack(before, after):
		return 0
	case r.pause(before, after) <= flapPause:
		return r.changes.wait(key, now)
	default:
		return r.details.wait(key, now)
	}
}

// isBack tells of a target that is reachable and was not, or was not known.
func isBack(before, after hubv1alpha1.TargetClusterStatus) bool {
	if len(before.Conditions) == 0 {
		return true
	}
	for _, t := range []string{hubv1alpha1.ConditionConnected, hubv1alpha1.ConditionAPIServerAvailable} {
		if meta.IsStatusConditionTrue(after.Conditions, t) && !meta.IsStatusConditionPresentAndEqual(before.Conditions, t, metav1.ConditionTrue) {
			return true
		}
	}
	return false
}
