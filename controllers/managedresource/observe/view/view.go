package view

import (
	"fmt"
	"maps"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/controllers/managedresource/observe/conditions"
	"github.com/trellis-hub/trellis/controllers/managedresource/observe/notes"
	"github.com/trellis-hub/trellis/controllers/managedresource/observe/tracker"
	"github.com/trellis-hub/trellis/engine/health"
	"github.com/trellis-hub/trellis/engine/inventory"
)

// explainedServices bounds the Services of a ManagedResource that the target's events are read for.
const explainedServices = 20

// Viewer collects the state of the objects of ManagedResources.
type Viewer struct {
	Tracker  *tracker.Tracker
	Warnings *notes.Reader
}

// Subject is the ManagedResource to view.
type Subject struct {
	ManagedResource types.NamespacedName
	Cluster         clustercache.ClusterKey
	Resources       []resourcesv1alpha1.ObjectReference
	// Comparison is how the watches show the objects, compared with how they were accepted.
	Comparison tracker.Comparison
	// Applied is true if all of them were applied. Then an object that was not accepted since the start has to be
	// compared first; else some may be left from before.
	Applied bool
	// Partial is true if Resources are some of the objects only. What the watches show of others does not matter.
	Partial bool
	// Late reports whether watches take too long to show something. blind is true if some show nothing at present.
	Late func(blind bool) bool
}

// View is the state of the objects of a ManagedResource.
type View struct {
	conditions.Snapshot
	// Unjudged is true if the watches do not show everything yet.
	Unjudged bool
	// Explained are unhealthy objects that the target's events explain. Reading is true if they are being read for the
	// first time.
	Explained []inventory.Key
	Reading   bool
}

// Collect collects the state of each object.
func (v *Viewer) Collect(s Subject) *View {
	judged := &s.Comparison
	blind := !judged.Synced || judged.PodsUnknown
	l := &collector{
		Viewer: v, subject: s, judged: judged,
		view: &View{Snapshot: conditions.Snapshot{Failed: maps.Clone(judged.Failed)}, Unjudged: judged.Unseen > 0 ||
			blind},
		missing: setOf(judged.Missing), outdated: setOf(judged.Outdated), done: setOf(judged.Done),
		unlisted: map[string]bool{}, watches: map[string]bool{},
		late: s.Late(blind),
	}
	if s.Applied {
		l.unknown = setOf(judged.Unknown)
	}
	if !judged.Synced {
		l.accepted, _ = v.Tracker.AcceptedStates(s.ManagedResource)
	}
	for i := range s.Resources {
		if gvk := s.Resources[i].GroupVersionKind(); gvk.Kind != "" && gvk.Version != "" { // else it names no object
			l.at(inventory.KeyOf(s.Resources[i]), resourcesv1alpha1.IsTruthy(
				s.Resources[i].Annotations[resourcesv1alpha1.IgnoreAnnotation]))
		}
	}
	v.Warnings.Keep(s.ManagedResource, l.view.Explained...)
	if s.Partial {
		maps.DeleteFunc(l.view.Failed, func(watch string, _ error) bool {
			return !l.watches[watch] &&
				watch != tracker.PodWatch
		})
	}
	if !judged.Synced && !l.explained && !s.Partial {
		l.hide("The objects are not watched yet.")
	}
	l.view.Patient = !l.late && !judged.Overdue
	if !l.pods { // then they matter to roll-outs only
		if l.view.PodsHidden {
			l.view.PodsFailed = judged.Failed[tracker.PodWatch]
		}
		delete(l.view.Failed, tracker.PodWatch)
	}
	return l.view
}

// collector collects a View.
type collector struct {
	*Viewer
	subject Subject
	judged  *tracker.Comparison
	view    *View

	missing, outdated map[inventory.Key]bool
	done              map[inventory.Key]bool
	unknown           map[inventory.Key]bool
	accepted          map[inventory.Key]tracker.Accepted
	unlisted          map[string]bool // kinds of which that was said
	watches           map[string]bool // that show nothing of some of the objects
	late              bool            // watches take too long to list something
	explained         bool            // why not all watches are synced
	pods              bool            // some objects are pods
	podsOf            tracker.Pods
	podsSynced        bool
}

// at adds the state of one object. An ignored one does not bear our labels.
func (l *collector) at(key inventory.Key, ignored bool) {
	l.pods = l.pods || key.GroupKind().String() == "Pod"
	obs, found, synced := l.Tracker.Observed(l.subject.ManagedResource, key)
	if !synced {
		l.unlistedAt(key)
		return
	}
	_, shown := l.judged.Observed[key]
	switch {
	case l.done[key]: // and its success is the last that was seen of it
	case !found && l.missing[key] && !l.outdated[key]:
		l.unhealthy(key, health.Problem{Severity: health.Missing})
	case !found, !shown, l.outdated[key]:
		l.hide(fmt.Sprintf("%s is not shown yet as it was written last.", key))
	case l.unknown[key]:
		l.view.Hidden = append(l.view.Hidden, fmt.Sprintf("%s is not compared yet with what was applied.", key))
	default:
		l.judge(key, obs, ignored)
	}
}

// unlistedAt adds the state of an object whose watch shows nothing.
func (l *collector) unlistedAt(key inventory.Key) {
	watch := l.Tracker.WatchOf(l.subject.ManagedResource, key)
	err := l.judged.Failed[watch]
	l.explained, l.watches[watch] = true, true
	switch {
	case meta.IsNoMatchError(err):
		delete(l.view.Failed, watch)
		if _, applied := l.accepted[key]; applied && !l.late {
			l.hideKind(key)
			return
		}
		l.unhealthy(key, health.Problem{Severity: health.Missing, Message: err.Error()})
	case apierrors.IsNotFound(err) && !l.late:
		// A definition is announced a moment before its instances can be listed, and after that each attempt to watch
		// them finds out again.
		delete(l.view.Failed, watch)
		l.hideKind(key)
	case err == nil:
		l.hideKind(key)
	}
}

// judge adds what is wrong with an object that the watches show.
func (l *collector) judge(key inventory.Key, obs *tracker.Observation, ignored bool) {
	var sick, rolling health.Problem
	if j := obs.Judgement; j != nil {
		if j.Health.Checked && !j.Health.Healthy {
			sick = j.Health.Problem
		}
		rolling = l.rollout(key, j.Progress, ignored)
		least := health.Unavailable // pods that start are what a roll-out consists of
		if sick != (health.Problem{}) {
			least = health.Waiting
		}
		if j.Progress.Selector != nil && (sick != health.Problem{} || rolling != health.Problem{}) {
			if pods, synced := l.podsIn(); synced {
				cause := health.Explain(j.Progress.Selector, pods.Of(key.Namespace, j.Progress.Selector), least)
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
		l.view.Progressing = append(l.view.Progressing, conditions.Problem{Key: key, Problem: rolling})
	}
}

// rollout is why an object is still being rolled out. The pods of a Deployment decide, but the watch of pods shows only
// those that bear our label, and the template of an ignored one does not.
func (l *collector) rollout(key inventory.Key, p health.ProgressResult, ignored bool) health.Problem {
	switch {
	case !p.CountPods:
		return p.Problem
	case ignored:
		return p.Reported
	}
	pods, synced := l.podsIn()
	if !synced {
		l.view.PodsHidden = true
		return health.Problem{}
	}
	if done, message := health.PodsRolledOut(p, pods.Of(key.Namespace, p.Selector)); !done {
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

// podsIn are the pods of the target, read once.
func (l *collector) podsIn() (tracker.Pods, bool) {
	if l.podsOf == nil {
		l.podsOf, l.podsSynced = l.Tracker.Pods(l.subject.Cluster)
	}
	return l.podsOf, l.podsSynced
}

// warningsOf is what the target's cloud says of a load balancer that is not there yet. It is not waited for.
func (l *collector) warningsOf(key inventory.Key) []string {
	if key.GroupKind().String() != "Service" || len(l.view.Explained) == explainedServices {
		return nil
	}
	l.view.Explained = append(l.view.Explained, key)
	notes, pending := l.Warnings.Of(l.subject.ManagedResource, l.subject.Cluster, key)
	l.view.Reading = l.view.Reading || pending
	return notes
}

func (l *collector) unhealthy(key inventory.Key, p health.Problem, notes ...string) {
	l.view.Unhealthy = append(l.view.Unhealthy, conditions.Problem{Key: key, Problem: p, Notes: notes})
}

func (l *collector) hide(why string) {
	l.view.Unjudged = true
	l.view.Hidden = append(l.view.Hidden, why)
}

func (l *collector) hideKind(key inventory.Key) {
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
