package tracker

import (
	"slices"
	"strings"
	"sync"
	"time"
	"unique"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/controllers/internal/informers"
	"github.com/trellis-hub/trellis/engine/health"
	"github.com/trellis-hub/trellis/engine/inventory"
	"github.com/trellis-hub/trellis/engine/ownership"
)

// target is what is tracked in one target.
type target struct {
	key clustercache.ClusterKey

	// declare serialises changes of the set of watches with the calls that make them so. It is taken before mu.
	declare sync.Mutex

	mu      sync.Mutex
	mrs     map[types.NamespacedName]*tracked
	owners  map[handle][]*tracked
	watches map[string]*watchNeed
	asked   uint64 // counts the calls of needed, to list each watch once
	// workloads are the keys of owners that pods explain, by namespace.
	workloads map[string]map[handle]struct{}
}

// watchNeed counts what needs a watch.
type watchNeed struct {
	watcher *clustercache.Watcher
	objects clustercache.Subscription // nil before it is begun; changed with both declare and mu
	count   int
	asked   uint64    // who asked for it last
	err     error     // the last failure to watch, nil since the last sync
	failed  time.Time // when that was
}

// fine reports whether a watch has not failed since a time.
func (n *watchNeed) fine(since time.Time) bool {
	return n == nil || n.err == nil || n.failed.Before(since)
}

// tracked is what is known about one ManagedResource in its target.
type tracked struct {
	name    types.NamespacedName
	objects map[handle]*object
	exact   Exact
	round   uint32 // of Track
	// busy is true while its objects are being written: events are noted, not judged.
	busy bool
	// waiting is true while it is to be notified when the last of its watches is synced.
	waiting bool
	// unseen counts objects whose last write the watches did not show yet.
	unseen int
	// owned are the owners of objects that are gone; nil if there are none.
	owned map[handle]string
	// done are the UIDs of Jobs that were gone after they had succeeded; nil if there are none. doneChanged is true since
	// one was added, or turned out not to be done, until TakeDone is called.
	done        map[handle]types.UID
	doneChanged bool
	// shown, if not nil, is closed when there are none left: a run waits for it, which needs no notification.
	shown chan struct{}
}

// object is one object of a ManagedResource.
type object struct {
	watch      string
	more       []string // watches beside, that its progress or replicas depend on
	createOnly bool
	scalable   bool   // an autoscaler may own its replicas
	known      bool   // accepted holds a state
	round      uint32 // of Track that listed it last
	accepted   Accepted
	since      time.Time // of the acceptance
	hidden     time.Time // since when the watch does not show what was accepted, however often; of use if not seen
	seen       bool      // the watch showed it as of the accepted write, or later
	missing    bool      // a delete event came, and nothing since
	scaledSeen bool      // the watch showed an autoscaler since the acceptance
}

// Accepted is how an object was when it was last found or made right.
type Accepted struct {
	UID             types.UID
	ResourceVersion string
	// State is kept as far as the ManagedResource is Exact.
	State ownership.State
	// Autoscaled is true if an autoscaler had its replicas.
	Autoscaled bool
	// Done is true for a Job that is gone because it has succeeded. It is right, and not to be seen.
	Done bool
	// Intent is a digest of what was sent, zero if that is not known, as after a restart.
	Intent uint64
}

// Exact says of what an object may have nothing beside what its ManagedResource sets: then labels or annotations of
// others are drift.
type Exact struct{ Labels, Annotations bool }

func (e Exact) of(s ownership.State) ownership.State { return s.Within(e.Labels, e.Annotations) }

// handle is a key in little memory: nearly all targets have objects of the same names.
type handle = unique.Handle[inventory.Key]

func newTarget(key clustercache.ClusterKey) *target {
	return &target{
		key: key, mrs: map[types.NamespacedName]*tracked{}, owners: map[handle][]*tracked{}, watches: map[string]*watchNeed{},
		workloads: map[string]map[handle]struct{}{},
	}
}

// own notes that a ManagedResource has an object.
func (tgt *target) own(h handle, m *tracked) {
	tgt.owners[h] = append(tgt.owners[h], m)
	key := h.Value()
	if !needsPods(key) {
		return
	}
	if tgt.workloads[key.Namespace] == nil {
		tgt.workloads[key.Namespace] = map[handle]struct{}{}
	}
	tgt.workloads[key.Namespace][h] = struct{}{}
}

// disown notes that a ManagedResource does not have an object any longer.
func (tgt *target) disown(h handle, m *tracked) {
	left := slices.DeleteFunc(tgt.owners[h], func(other *tracked) bool { return other == m })
	if len(left) > 0 {
		tgt.owners[h] = left
		return
	}
	delete(tgt.owners, h)
	namespace := h.Value().Namespace
	delete(tgt.workloads[namespace], h)
	if len(tgt.workloads[namespace]) == 0 {
		delete(tgt.workloads, namespace)
	}
}

func isCreateOnly(ref *resourcesv1alpha1.ObjectReference) bool {
	return resourcesv1alpha1.IsTruthy(ref.Annotations[resourcesv1alpha1.IgnoreAnnotation])
}

// isWatchable reports whether an inventory entry names a kind. What does not, because it was written by hand, is no
// object, and must not keep the rest from being watched.
func isWatchable(ref *resourcesv1alpha1.ObjectReference) bool {
	gvk := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind)
	return gvk.Kind != "" && gvk.Version != ""
}

// watcherFor returns the watch that an inventory entry needs. One watch serves a version of a kind; an object with the
// ignore annotation bears no label of ours and has a watch of its own.
//
// What is listed in two versions is watched in both. That is rare, and a version that its server drops affects only the
// ManagedResources that still list it.
func (t *Tracker) watcherFor(ref *resourcesv1alpha1.ObjectReference) *clustercache.Watcher {
	w := t.kindWatcher(schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind))
	if isCreateOnly(ref) {
		alone := *w
		alone.Name += " " + ref.Namespace + "/" + ref.Name
		alone.LabelSelector = nil
		alone.Namespace = ref.Namespace
		alone.FieldSelector = fields.OneTermEqualSelector("metadata.name", ref.Name)
		return &alone
	}
	return w
}

// kindWatcher returns the watch of a kind. Inventories hold many objects of few kinds.
func (t *Tracker) kindWatcher(gvk schema.GroupVersionKind) *clustercache.Watcher {
	if w, known := t.kinds.Get(gvk); known {
		return w
	}
	full := health.NeedsFullObject(gvk.GroupKind())
	w := &clustercache.Watcher{
		Name:          watchName(gvk),
		Kind:          gvk,
		Form:          "observation",
		MetadataOnly:  !full,
		Fields:        health.Fields,
		LabelSelector: t.selector,
		Transform:     t.transform,
		Handler:       (*handler)(t),
	}
	t.kinds.Add(gvk, w)
	return w
}

// watchName names the watch of a kind: Deployment.v1.apps.
func watchName(gvk schema.GroupVersionKind) string {
	return strings.TrimSuffix(gvk.Kind+"."+gvk.Version+"."+gvk.Group, ".")
}

// moreFor returns the watches that an inventory entry needs beside that of its kind.
func (t *Tracker) moreFor(ref *resourcesv1alpha1.ObjectReference, key inventory.Key) []*clustercache.Watcher {
	var more []*clustercache.Watcher
	if needsPods(key) {
		more = append(more, t.kindWatcher(podKind))
	}
	if needsAutoscalers(ref, key) {
		more = append(more, t.autoscalerWatcher())
	}
	return more
}

// olderThan reports whether an observation shows an object as it was before the accepted write. Versions that cannot be
// compared count as newer: judging once too often costs a read, judging never would miss drift.
func (o *Observation) olderThan(resourceVersion string) bool {
	return informers.Older(o.ResourceVersion, resourceVersion)
}
