package tracker

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"maps"
	"slices"
	"sync"
	"time"
	"unique"

	lru "github.com/hashicorp/golang-lru/v2"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/engine/inventory"
	"github.com/trellis-hub/trellis/engine/ownership"
)

// Cause says why a ManagedResource is notified.
type Cause int

// Causes, in rising urgency.
const (
	// CauseHealth: the health or progress of an object changed, or a watch caught up.
	CauseHealth Cause = iota
	// CauseDrift: an object is not as it was accepted, or is gone.
	CauseDrift
)

// Options of a Tracker.
type Options struct {
	Clusters clustercache.ClusterCache
	// FieldManager is that of the applies whose results are compared.
	FieldManager string
	// Selector selects the objects to watch: by the managed-by label.
	Selector labels.Selector
	// Notify is called for ManagedResources that should be reconciled. It must return quickly.
	Notify func(mr types.NamespacedName, cause Cause)
	// Clock defaults to the real one.
	Clock clock.PassiveClock
}

// UnseenGrace is how long a synced watch may take to show a write. What it does not show by then is taken for changed
// or gone, and the live object decides. Nothing that a watch shows of before the write is taken for the present state,
// however long it continues (Comparison.Outdated).
const UnseenGrace = 30 * time.Second

// mostKinds is how many kinds are remembered with their watches. A fleet has some hundred.
const mostKinds = 4096

// Tracker tracks the objects of all ManagedResources in all targets.
type Tracker struct {
	clusters     clustercache.ClusterCache
	fieldManager string
	selector     labels.Selector
	notify       func(mr types.NamespacedName, cause Cause)
	clock        clock.PassiveClock
	// kinds are the watches of kinds, the same for all targets.
	kinds *lru.Cache[schema.GroupVersionKind, *clustercache.Watcher]

	mu        sync.RWMutex
	targets   map[clustercache.ClusterKey]*target
	clusterOf map[types.NamespacedName]clustercache.ClusterKey
}

// New returns an empty tracker.
func New(o Options) *Tracker {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	kinds, _ := lru.New[schema.GroupVersionKind, *clustercache.Watcher](mostKinds) // its only error is a size of zero
	return &Tracker{
		kinds: kinds, clock: o.Clock, clusters: o.Clusters, fieldManager: o.FieldManager, selector: o.Selector,
		notify:  o.Notify,
		targets: map[clustercache.ClusterKey]*target{}, clusterOf: map[types.NamespacedName]clustercache.ClusterKey{},
	}
}

// Track records what a ManagedResource lists in a target, and has the kinds watched that this needs. Objects that stay
// keep what is known of them. A ManagedResource is in one target at a time; a change of the target forgets the old one.
//
// Every watch is checked each time, not only when it is new: those of a target whose registration goes end with it.
func (t *Tracker) Track(ctx context.Context, mr types.NamespacedName, cluster clustercache.ClusterKey,
	refs []resourcesv1alpha1.ObjectReference, exact Exact) error {
	t.mu.Lock()
	if old, ok := t.clusterOf[mr]; ok && old != cluster {
		t.mu.Unlock()
		t.Forget(mr)
		t.mu.Lock()
	}
	t.clusterOf[mr] = cluster
	tgt := t.targets[cluster]
	if tgt == nil {
		tgt = newTarget(cluster)
		t.targets[cluster] = tgt
	}
	t.mu.Unlock()

	if refs == nil {
		refs = []resourcesv1alpha1.ObjectReference{} // nil would forget it
	}
	tgt.declare.Lock()
	defer tgt.declare.Unlock()
	needed, unneeded := tgt.replace(t, mr, refs, exact)
	unsubscribe(unneeded)
	return t.subscribe(ctx, tgt, needed)
}

// Forget drops a ManagedResource and the watches that only it needed.
func (t *Tracker) Forget(mr types.NamespacedName) {
	t.mu.Lock()
	cluster, ok := t.clusterOf[mr]
	delete(t.clusterOf, mr)
	tgt := t.targets[cluster]
	t.mu.Unlock()
	if !ok || tgt == nil {
		return
	}
	tgt.declare.Lock()
	defer tgt.declare.Unlock()
	_, unneeded := tgt.replace(t, mr, nil, Exact{})
	unsubscribe(unneeded)
	t.mu.Lock()
	defer t.mu.Unlock()
	tgt.mu.Lock()
	defer tgt.mu.Unlock()
	if len(tgt.mrs) == 0 && t.targets[cluster] == tgt {
		for _, other := range t.clusterOf {
			if other == cluster { // a ManagedResource is about to be tracked here
				return
			}
		}
		delete(t.targets, cluster)
	}
}

// Close ends all watches.
func (t *Tracker) Close() {
	t.mu.RLock()
	mrs := slices.Collect(maps.Keys(t.clusterOf))
	t.mu.RUnlock()
	for _, mr := range mrs {
		t.Forget(mr)
	}
}

// subscribe begins the watches that are needed and not there. It is called with declare.
func (t *Tracker) subscribe(ctx context.Context, tgt *target, needed []*watchNeed) error {
	var first error
	for _, need := range needed {
		if need.objects != nil && need.objects.Live() {
			continue
		}
		objects, err := t.clusters.Watch(ctx, tgt.key, *need.watcher)
		if err != nil {
			if first == nil {
				first = err
			}
			continue
		}
		tgt.mu.Lock()
		need.objects = objects
		tgt.mu.Unlock()
		if _, _, synced := objects.Lookup(types.NamespacedName{}); synced {
			// The handler was called before the watch could be read.
			(*handler)(t).OnSynced(tgt.key, need.watcher.Name)
		}
	}
	return first
}

func unsubscribe(unneeded []*watchNeed) {
	for _, need := range unneeded {
		if need.objects != nil {
			need.objects.Close()
		}
	}
}

// Target returns where a ManagedResource is tracked.
func (t *Tracker) Target(mr types.NamespacedName) (clustercache.ClusterKey, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	c, ok := t.clusterOf[mr]
	return c, ok
}

// In returns the ManagedResources that are tracked in a target.
func (t *Tracker) In(cluster clustercache.ClusterKey) []types.NamespacedName {
	tgt := t.target(cluster)
	if tgt == nil {
		return nil
	}
	tgt.mu.Lock()
	defer tgt.mu.Unlock()
	return slices.Collect(maps.Keys(tgt.mrs))
}

// Objects counts the objects that are tracked in each target.
func (t *Tracker) Objects() map[clustercache.ClusterKey]int {
	t.mu.RLock()
	targets := maps.Clone(t.targets)
	t.mu.RUnlock()
	counts := make(map[clustercache.ClusterKey]int, len(targets))
	for key, tgt := range targets {
		tgt.mu.Lock()
		counts[key] = len(tgt.owners)
		tgt.mu.Unlock()
	}
	return counts
}

func (t *Tracker) target(cluster clustercache.ClusterKey) *target {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.targets[cluster]
}

func (t *Tracker) of(mr types.NamespacedName) *target {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.targets[t.clusterOf[mr]]
}

// replace makes refs the objects of mr and returns the watches that it needs, and those that are not needed any longer.
func (tgt *target) replace(
	t *Tracker, mr types.NamespacedName, refs []resourcesv1alpha1.ObjectReference, exact Exact,
) (needed, unneeded []*watchNeed) {
	tgt.mu.Lock()
	defer tgt.mu.Unlock()
	entry := tgt.mrs[mr]
	if entry == nil {
		entry = &tracked{name: mr, objects: make(map[handle]*object, len(refs))}
	}
	entry.exact = exact
	entry.round++
	for i := range refs {
		ref := &refs[i]
		key := inventory.KeyOf(*ref)
		h := unique.Make(key)
		old := entry.objects[h]
		if old != nil && old.round == entry.round || !isWatchable(ref) {
			continue
		}
		w, scalable := t.watcherFor(ref), needsAutoscalers(ref, key)
		if old != nil && old.watch == w.Name && old.scalable == scalable {
			old.round = entry.round
			continue // as in nearly every call
		}
		o := &object{watch: tgt.need(w), createOnly: isCreateOnly(ref), scalable: scalable, round: entry.round}
		for _, w := range t.moreFor(ref, key) {
			o.more = append(o.more, tgt.need(w))
		}
		switch {
		case old == nil:
			tgt.own(h, entry)
			entry.objects[h] = o
		case old.watch == o.watch:
			tgt.release(old)
			old.more, old.scalable, old.round = o.more, o.scalable, o.round
		default:
			tgt.release(old)
			entry.objects[h] = o
		}
	}
	for h, old := range entry.objects {
		if old.round == entry.round {
			continue
		}
		delete(entry.objects, h)
		delete(entry.done, h)
		delete(entry.owned, h)
		tgt.release(old)
		tgt.disown(h, entry)
	}
	if refs == nil {
		delete(tgt.mrs, mr)
	} else {
		tgt.mrs[mr] = entry
	}
	entry.recount()
	for name, need := range tgt.watches { // at the end: one that was given up and taken again continues
		if need.count == 0 {
			delete(tgt.watches, name)
			unneeded = append(unneeded, need)
		}
	}
	return tgt.needed(entry), unneeded
}

// need counts an object that needs a watch, and returns the one copy of its name.
func (tgt *target) need(w *clustercache.Watcher) (name string) {
	n := tgt.watches[w.Name]
	if n == nil {
		n = &watchNeed{watcher: w}
		tgt.watches[w.Name] = n
	}
	n.count++
	return n.watcher.Name
}

// needed lists the watches that the objects of a ManagedResource need: one for each kind, and one for each object that
// is ignored.
func (tgt *target) needed(m *tracked) (watches []*watchNeed) {
	tgt.asked++
	add := func(name string) {
		if n := tgt.watches[name]; n.asked != tgt.asked {
			n.asked = tgt.asked
			watches = append(watches, n)
		}
	}
	for _, o := range m.objects {
		add(o.watch)
		for _, name := range o.more {
			add(name)
		}
	}
	return watches
}

// release counts an object that does not need its watches any longer.
func (tgt *target) release(o *object) {
	tgt.watches[o.watch].count--
	for _, name := range o.more {
		tgt.watches[name].count--
	}
}

func (m *tracked) recount() {
	m.unseen = 0
	for _, o := range m.objects {
		m.unseen += o.unseen()
	}
}

// unseen is 1 if the watch did not show the last write of the object yet.
func (o *object) unseen() int {
	if o.known && !o.seen {
		return 1
	}
	return 0
}

// Begin marks a ManagedResource as being written: its events are noted, not judged, until End. keys are the objects
// that the run deals with, none for all.
func (t *Tracker) Begin(mr types.NamespacedName, keys ...inventory.Key) { t.setBusy(mr, true, keys) }

// End is the counterpart of Begin. The caller judges afterwards.
func (t *Tracker) End(mr types.NamespacedName) { t.setBusy(mr, false, nil) }

func (t *Tracker) setBusy(mr types.NamespacedName, busy bool, keys []inventory.Key) {
	if tgt := t.of(mr); tgt != nil {
		tgt.mu.Lock()
		defer tgt.mu.Unlock()
		m := tgt.mrs[mr]
		if m == nil {
			return
		}
		m.busy = busy
		if !busy {
			return
		}
		// Delete events so far are what this run deals with. One that comes during it is about its own result.
		for h, o := range m.objects {
			if o.missing && !m.isDone(h, o) && (len(keys) == 0 || slices.Contains(keys, h.Value())) {
				o.missing, o.known = false, false
			}
		}
		m.recount()
	}
}

// Accept records how an object is right.
func (t *Tracker) Accept(mr types.NamespacedName, key inventory.Key, accepted Accepted) {
	tgt := t.of(mr)
	if tgt == nil {
		return
	}
	tgt.mu.Lock()
	defer tgt.mu.Unlock()
	m, o := tgt.mrs[mr], tgt.object(mr, key)
	if o == nil {
		return
	}
	if key.GroupKind() == podKind.GroupKind() && accepted.State.Own == 0 {
		accepted.State = ownership.State{} // as the watch shows it (mayHaveWritten)
	}
	accepted.State = m.exact.of(accepted.State)
	scaled := false
	if o.scalable {
		all, _ := t.autoscaled(tgt)
		scaled = all[canonical(key)]
		accepted.Autoscaled = accepted.Autoscaled || scaled
	}
	h := unique.Make(key)
	if done, has := m.done[h]; has && done != accepted.UID {
		delete(m.done, h)
		o.missing = false
	}
	m.unseen -= o.unseen()
	if !o.known || o.seen { // else the watch is late already, and a live read does not change that
		o.hidden = t.clock.Now()
	}
	o.known, o.accepted, o.since, o.scaledSeen = true, accepted, t.clock.Now(), scaled
	obs, found, synced := tgt.observed(o.watch, key)
	o.seen = synced && found && !obs.olderThan(accepted.ResourceVersion) || m.isDone(h, o)
	m.unseen += o.unseen()
}

// Fingerprint condenses the states of objects to one text. Equal fingerprints mean equal states of the same objects,
// and that the same ones are done.
func Fingerprint(states map[inventory.Key]Accepted) string {
	keys := slices.SortedFunc(maps.Keys(states), inventory.Key.Compare)
	hash := sha256.New()
	var text []byte
	for _, k := range keys {
		s := states[k]
		if s.Done {
			continue // as after a restart, when only the target is known
		}
		text = text[:0]
		for _, part := range [...]string{k.Group, k.Kind, k.Namespace, k.Name, string(s.UID)} {
			text = append(append(text, part...), '/')
		}
		for _, number := range [...]uint64{s.State.Own, s.State.Foreign, s.State.Labels, s.State.Annotations} {
			text = binary.LittleEndian.AppendUint64(text, number)
		}
		scaled := byte(0)
		if s.Autoscaled {
			scaled = 1
		}
		hash.Write(append(text, scaled))
	}
	return hex.EncodeToString(hash.Sum(nil)[:16])
}

var (
	podKind = schema.GroupVersionKind{Version: "v1", Kind: "Pod"}
	// PodWatch is the name of the watch of pods, whether they are listed themselves or belong to workloads.
	PodWatch = watchName(podKind)
)

// needsPods reports whether pods explain what is wrong with an object.
func needsPods(key inventory.Key) bool {
	return key.Group == appsGroup && (key.Kind == "Deployment" || key.Kind == "StatefulSet" || key.Kind == "DaemonSet")
}

// countsPods reports whether the progress of an object depends on the number of its pods.
func countsPods(key inventory.Key) bool { return key.Group == appsGroup && key.Kind == "Deployment" }
