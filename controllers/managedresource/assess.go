package managedresource

import (
	"context"
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/controllers/managedresource/health"
	"github.com/trellis-hub/trellis/controllers/managedresource/inventory"
	"github.com/trellis-hub/trellis/controllers/managedresource/tracker"
	"github.com/trellis-hub/trellis/controllers/managedresource/verdict"
)

var semantic = equality.Semantic

// evaluate writes what the watches say about health and progress. It sends nothing to the target, and nothing to the
// source unless a condition changes.
func (r *reconciler) evaluate(ctx context.Context, work *run, status clustercache.Status) (reconcile.Result, error) {
	if status.State != clustercache.StateConnected {
		return r.unreachable(ctx, work, status)
	}
	return r.evaluateBeside(ctx, work, func(*resourcesv1alpha1.ManagedResourceStatus) {})
}

// evaluateApplied is evaluate for a ManagedResource that is known to be applied, whatever its condition said in the
// meantime: that it had no target, or was ignored.
func (r *reconciler) evaluateApplied(ctx context.Context, work *run, status clustercache.Status) (reconcile.Result, error) {
	yields := r.memory.yields(work.name)
	if appliedTrue(work.mr) && len(yields) == 0 {
		return r.evaluate(ctx, work, status)
	}
	return r.evaluateBeside(ctx, work, func(s *resourcesv1alpha1.ManagedResourceStatus) {
		came := verdict.Run{Yielded: yields}
		r.set(s, resourcesv1alpha1.ConditionResourcesApplied, came.Applied())
	})
}

func (r *reconciler) evaluateBeside(ctx context.Context, work *run, change func(*resourcesv1alpha1.ManagedResourceStatus)) (reconcile.Result, error) {
	wait, err := r.updateHealth(ctx, work, func(s *resourcesv1alpha1.ManagedResourceStatus) {
		change(s)
		r.assess(ctx, s, work)
	})
	result := r.settled(work, r.tracker.Judge(work.name))
	if wait > 0 {
		result = sooner(result, wait)
	}
	return result, err
}

// assess sets ResourcesHealthy and ResourcesProgressing from what was observed. Until the watches have shown the last write
// of every object, they stay as they are: nothing is claimed that was not seen.
func (r *reconciler) assess(ctx context.Context, s *resourcesv1alpha1.ManagedResourceStatus, work *run) {
	if sight := r.see(ctx, s, work); sight != nil {
		if c, known := sight.Healthy(); known {
			r.set(s, resourcesv1alpha1.ConditionResourcesHealthy, c)
		}
		if c, known := sight.Rollout(); known {
			r.set(s, resourcesv1alpha1.ConditionResourcesProgressing, c)
		}
	}
}

// assessFailure is for a run that failed, before it says so: health is not judged from then on, and what it found to be wrong
// must not be left to read as healthy.
func (r *reconciler) assessFailure(ctx context.Context, s *resourcesv1alpha1.ManagedResourceStatus, work *run) {
	if sight := r.see(ctx, s, work); sight != nil {
		if c, known := sight.Healthy(); known && c.Status == resourcesv1alpha1.ConditionFalse {
			r.set(s, resourcesv1alpha1.ConditionResourcesHealthy, c)
		}
	}
}

// see returns what the watches show of the objects of a ManagedResource; nil if its health is not to be judged.
func (r *reconciler) see(ctx context.Context, s *resourcesv1alpha1.ManagedResourceStatus, work *run) *verdict.Sight {
	if !r.ask(ctx, s, work) {
		return nil
	}
	applied := resourcesv1alpha1.GetCondition(s.Conditions, resourcesv1alpha1.ConditionResourcesApplied)
	if applied == nil || applied.Status != resourcesv1alpha1.ConditionTrue &&
		applied.Reason != resourcesv1alpha1.ReasonDecodingFailed && applied.Reason != resourcesv1alpha1.ReasonOwnedByOther {
		r.endSilence(s)
		return nil // spec/managedresource.md 3.1: health is said of what was applied
	}
	return r.look(s.Resources, work, applied.Status == resourcesv1alpha1.ConditionTrue)
}

// ask tells whether the target can be asked about the objects. If it cannot although it should, it sets the conditions.
// Those of a target that is meant to be away stay as they are, as soon as that is said and until it is over: its nodes
// go before its API server does, and come after it.
func (r *reconciler) ask(ctx context.Context, s *resourcesv1alpha1.ManagedResourceStatus, work *run) bool {
	status, registered := r.clusters.GetStatus(work.target) // the one that a run began with may be over
	switch {
	case !registered, r.hibernated(ctx, work), status.State == clustercache.StateConnecting:
		return false
	case status.State != clustercache.StateConnected:
		r.setUnreachable(s, work, status)
		return false
	}
	return status.UID == work.clusterUID()
}

// look collects what is to be said of each object. If all of them were applied, one that nobody accepted since the start has to
// be compared first; else some may be left from before.
func (r *reconciler) look(refs []resourcesv1alpha1.ObjectReference, work *run, all bool) *verdict.Sight {
	v := r.tracker.Judge(work.name)
	work.unjudged = v.Unseen > 0 || !v.Synced || v.PodsUnknown
	work.explained, work.reading = nil, false
	l := &look{
		reconciler: r, work: work, verdict: v, sight: &verdict.Sight{Failed: maps.Clone(v.Failed)},
		missing: setOf(v.Missing), outdated: setOf(v.Outdated), unlisted: map[string]bool{},
		// An object that was just applied is of a kind that is served, so what its watch says of that is about to change.
		late: r.memory.blindFor(work.name, !v.Synced || v.PodsUnknown, r.clock.Now()) >= syncGrace,
	}
	if all {
		l.unknown = setOf(v.Unknown)
	}
	if !v.Synced {
		l.accepted, _ = r.tracker.AcceptedStates(work.name)
	}
	for i := range refs {
		if gvk := refs[i].GroupVersionKind(); gvk.Kind != "" && gvk.Version != "" { // else it names no object
			l.at(inventory.KeyOf(refs[i]))
		}
	}
	r.warnings.Keep(work.name, work.explained...)
	if !v.Synced && !l.explained {
		l.hide("The objects are not watched yet.")
	}
	l.sight.Patient = !l.late && len(v.Outdated) == 0
	if !l.pods { // then they matter to roll-outs only
		if l.sight.PodsHidden {
			l.sight.PodsFailed = v.Failed[tracker.PodWatch]
		}
		delete(l.sight.Failed, tracker.PodWatch)
	}
	return l.sight
}

// explainedServices bounds the Services of a ManagedResource that the target's events are read for.
const explainedServices = 20

// look is one look at all objects of a ManagedResource.
type look struct {
	*reconciler
	work    *run
	verdict tracker.Verdict
	sight   *verdict.Sight

	missing, outdated map[inventory.Key]bool
	unknown           map[inventory.Key]bool
	accepted          map[inventory.Key]tracker.Accepted
	unlisted          map[string]bool // kinds of which that was said
	late              bool            // watches take too long to list something
	explained         bool            // why not all watches are synced
	pods              bool            // some objects are pods
	podsOf            tracker.Pods
	podsSynced        bool
}

// at adds what is to be said of one object.
func (l *look) at(key inventory.Key) {
	l.pods = l.pods || key.GroupKind().String() == "Pod"
	obs, found, synced := l.tracker.Observed(l.work.name, key)
	if !synced {
		l.unlistedAt(key)
		return
	}
	_, shown := l.verdict.Observed[key]
	switch {
	case !found && l.missing[key]:
		l.unhealthy(key, health.Problem{Severity: health.Missing})
	case !found, !shown, l.outdated[key]:
		l.hide(fmt.Sprintf("%s is not shown yet as it was written last.", key))
	case l.unknown[key]:
		l.sight.Hidden = append(l.sight.Hidden, fmt.Sprintf("%s is not compared yet with what was applied.", key))
	default:
		l.judge(key, obs)
	}
}

// unlistedAt adds what is to be said of an object whose watch shows nothing.
func (l *look) unlistedAt(key inventory.Key) {
	watch := l.tracker.WatchOf(l.work.name, key)
	err := l.verdict.Failed[watch]
	l.explained = true
	switch {
	case meta.IsNoMatchError(err):
		delete(l.sight.Failed, watch)
		if _, applied := l.accepted[key]; applied && !l.late {
			l.hideKind(key)
			return
		}
		l.unhealthy(key, health.Problem{Severity: health.Missing, Message: err.Error()})
	case err == nil:
		l.hideKind(key)
	}
}

// judge adds what is wrong with an object that the watches show.
func (l *look) judge(key inventory.Key, obs *tracker.Observation) {
	var sick, rolling health.Problem
	if j := obs.Judgement; j != nil {
		if j.Health.Checked && !j.Health.Healthy {
			sick = j.Health.Problem
		}
		rolling = l.rollout(key, j.Progress)
		least := health.Unavailable // pods that start are what a roll-out consists of
		if sick != (health.Problem{}) {
			least = health.Waiting
		}
		if j.Progress.Selector != nil && (sick != health.Problem{} || rolling != health.Problem{}) {
			if pods, synced := l.podsIn(); synced {
				cause := health.Explain(j.Progress.Selector, pods.In(key.Namespace), least)
				sick, rolling = explained(sick, cause), explained(rolling, cause)
			}
		}
	}
	if obs.Terminating && !obs.Skipped && rolling == (health.Problem{}) {
		rolling = health.Problem{Severity: health.Unavailable, Message: "it is being deleted"}
	}
	if sick != (health.Problem{}) {
		l.unhealthy(key, sick, l.warningsOf(key)...)
	}
	if rolling != (health.Problem{}) {
		l.sight.Progressing = append(l.sight.Progressing, verdict.Problem{Key: key, Problem: rolling})
	}
}

// rollout is why an object is still being rolled out; the pods of a Deployment have the last word.
func (l *look) rollout(key inventory.Key, p health.ProgressResult) health.Problem {
	if !p.CountPods {
		return p.Problem
	}
	pods, synced := l.podsIn()
	if !synced {
		l.sight.PodsHidden = true
		return health.Problem{}
	}
	if done, message := health.PodsRolledOut(p, pods.In(key.Namespace)); !done {
		return health.Problem{Severity: health.Unavailable, Message: message}
	}
	return health.Problem{}
}

// explained puts the cause before what it leads to.
func explained(p, cause health.Problem) health.Problem {
	if p == (health.Problem{}) || cause == (health.Problem{}) {
		return p
	}
	return health.Problem{Severity: max(p.Severity, cause.Severity), Message: cause.Message + "; " + p.Message}
}

// podsIn are the pods of the target, which are looked through once.
func (l *look) podsIn() (tracker.Pods, bool) {
	if l.podsOf == nil {
		l.podsOf, l.podsSynced = l.tracker.Pods(l.work.target)
	}
	return l.podsOf, l.podsSynced
}

// warningsOf is what the target's cloud says of a load balancer that is not there yet. It is not waited for.
func (l *look) warningsOf(key inventory.Key) []string {
	if key.GroupKind().String() != "Service" || len(l.work.explained) == explainedServices {
		return nil
	}
	l.work.explained = append(l.work.explained, key)
	notes, pending := l.warnings.Of(l.work.name, l.work.target, key)
	l.work.reading = l.work.reading || pending
	return notes
}

func (l *look) unhealthy(key inventory.Key, p health.Problem, notes ...string) {
	l.sight.Unhealthy = append(l.sight.Unhealthy, verdict.Problem{Key: key, Problem: p, Notes: notes})
}

func (l *look) hide(why string) {
	l.work.unjudged = true
	l.sight.Hidden = append(l.sight.Hidden, why)
}

func (l *look) hideKind(key inventory.Key) {
	if kind := key.GroupKind().String(); !l.unlisted[kind] {
		l.unlisted[kind] = true
		l.hide(fmt.Sprintf("%s: the target has not listed its objects yet.", kind))
	}
}

func setOf(keys []inventory.Key) map[inventory.Key]bool {
	set := make(map[inventory.Key]bool, len(keys))
	for _, key := range keys {
		set[key] = true
	}
	return set
}
