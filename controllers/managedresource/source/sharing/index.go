package sharing

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"
	"unique"

	"k8s.io/apimachinery/pkg/types"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/controllers/internal/informers"
	"github.com/trellis-hub/trellis/engine/inventory"
)

// Location is where objects are: in a Cluster, or where those of Unbound ManagedResources are. Locations of different
// types are never the same, whatever is in them.
type Location interface{ isLocation() }

// Cluster is the cluster whose kube-system namespace has a UID, as a ManagedResource says by its annotation. A Verifier
// knows whether that is true.
type Cluster types.UID

// Unbound stands for the target of the ManagedResources of a namespace that carry a finalizer and are not bound to a
// cluster by this hub: a Gardener resource manager of that class applied them.
type Unbound struct{ Namespace, Finalizer string }

func (Cluster) isLocation() {}
func (Unbound) isLocation() {}

// Verifier reports whether the hub itself verified that the ManagedResources of a namespace reach the location that is
// asked about. It is only asked about namespaces other than that of the ManagedResource concerned, must answer from
// memory, and must not call the Index. A nil Verifier knows of none.
type Verifier func(namespace string) bool

// Index holds what ManagedResources list. The zero value is not ready for use; NewIndex makes one.
type Index struct {
	mu    sync.RWMutex
	lists map[types.NamespacedName]*list
	// objects are the ManagedResources that list an object of a location, and namespaces those that list any, by
	// their namespaces.
	objects    map[Location]map[handle][]types.NamespacedName
	namespaces map[Location]map[string]map[types.NamespacedName]struct{}
}

// handle is a key in little memory: nearly all clusters have objects of the same names.
type handle = unique.Handle[inventory.Key]

// list is what one ManagedResource lists.
type list struct {
	uid             types.UID
	resourceVersion string
	location        Location // nil for none
	keys            []handle // in the order of the keys
	// leaving is true if it deletes its objects itself.
	leaving bool
	// givenUp are objects that it is about to stop listing, without deleting them, because others list them or own them.
	givenUp map[inventory.Key]bool
}

// wants reports whether it counts as an owner of an object that it lists.
func (l *list) wants(key inventory.Key) bool { return !l.leaving && !l.givenUp[key] }

// NewIndex returns an empty index.
func NewIndex() *Index {
	return &Index{
		lists:      map[types.NamespacedName]*list{},
		objects:    map[Location]map[handle][]types.NamespacedName{},
		namespaces: map[Location]map[string]map[types.NamespacedName]struct{}{},
	}
}

// locationOf is the location of the objects of a ManagedResource by what it says itself, nil if there is none.
func locationOf(mr *resourcesv1alpha1.ManagedResource) Location {
	if uid := mr.Annotations[hubv1alpha1.TargetUIDAnnotation]; uid != "" {
		return Cluster(uid)
	}
	for _, f := range mr.Finalizers {
		if strings.HasPrefix(f, resourcesv1alpha1.FinalizerBase) {
			return Unbound{Namespace: mr.Namespace, Finalizer: f}
		}
	}
	return nil
}

// Change is what a ManagedResource does not list any longer, or leaves to others from now on.
type Change struct {
	// Namespace is that of the ManagedResource.
	Namespace string
	// Location is where it listed it, nil for nowhere.
	Location Location
	// Concerned are the other ManagedResources that list something of it, in order. Those of other namespaces are
	// concerned only as far as a Verifier confirms it.
	Concerned []types.NamespacedName
}

// Observe records a ManagedResource as it was read or written, and returns what that changes for others. A state that
// is older than the known one changes nothing.
func (x *Index) Observe(mr *resourcesv1alpha1.ManagedResource) Change {
	name := types.NamespacedName{Namespace: mr.Namespace, Name: mr.Name}
	now := &list{
		uid: mr.UID, resourceVersion: mr.ResourceVersion, location: locationOf(mr),
		leaving: mr.DeletionTimestamp != nil && (mr.Spec.KeepObjects == nil || !*mr.Spec.KeepObjects),
	}
	if now.location != nil {
		now.keys = make([]handle, 0, len(mr.Status.Resources))
		for i := range mr.Status.Resources {
			now.keys = append(now.keys, unique.Make(inventory.KeyOf(mr.Status.Resources[i])))
		}
		slices.SortFunc(now.keys, compareHandles)
		now.keys = slices.Compact(now.keys)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	before := x.lists[name]
	if before != nil && informers.Older(now.resourceVersion, before.resourceVersion) {
		return Change{}
	}
	x.lists[name] = now
	if before == nil {
		x.add(name, now.location, now.keys)
		return Change{}
	}
	if before.uid == now.uid {
		now.givenUp = before.givenUp
	}
	if before.location == now.location && slices.Equal(before.keys, now.keys) {
		now.keys = before.keys // one copy
		if now.leaving && !before.leaving {
			return x.change(name, now.location, now.keys)
		}
		return Change{}
	}
	gone := before.keys
	if before.location == now.location {
		gone = without(before.keys, now.keys)
		x.remove(name, before.location, gone)
		x.add(name, now.location, without(now.keys, before.keys))
		if len(now.keys) > 0 {
			x.enter(name, now.location)
		}
	} else {
		x.remove(name, before.location, gone)
		x.add(name, now.location, now.keys)
	}
	if now.leaving && !before.leaving {
		gone = before.keys
	}
	return x.change(name, before.location, gone)
}

// Forget drops a ManagedResource that does not exist any longer, and returns what that changes for others. uid is that
// of the one that is gone; another one of the same name that was observed meanwhile stays.
func (x *Index) Forget(name types.NamespacedName, uid types.UID) Change {
	x.mu.Lock()
	defer x.mu.Unlock()
	before := x.lists[name]
	if before == nil || before.uid != uid {
		return Change{}
	}
	delete(x.lists, name)
	x.remove(name, before.location, before.keys)
	return x.change(name, before.location, before.keys)
}

// Others returns, sorted, the ManagedResources but one that list an object in a location and count as its owners: those
// of its namespace, and those of namespaces that were verified.
func (x *Index) Others(location Location, key inventory.Key, except types.NamespacedName,
	verified Verifier) []types.NamespacedName {
	x.mu.RLock()
	defer x.mu.RUnlock()
	counts := countsFor(except, verified)
	var others []types.NamespacedName
	for _, name := range x.objects[location][unique.Make(key)] {
		if name != except && x.lists[name].wants(key) && counts(name) {
			others = append(others, name)
		}
	}
	slices.SortFunc(others, compareNames)
	return others
}

// countsFor reports whether what a ManagedResource lists counts for another one. It asks about each namespace once,
// however many ManagedResources of it list an object.
func countsFor(who types.NamespacedName, verified Verifier) func(types.NamespacedName) bool {
	known := map[string]bool{who.Namespace: true}
	return func(name types.NamespacedName) bool {
		is, ok := known[name.Namespace]
		if !ok {
			is = verified != nil && verified(name.Namespace)
			known[name.Namespace] = is
		}
		return is
	}
}

// GiveUp reports whether another ManagedResource lists an object in one of the locations and counts as its owner, and
// if so, that this one has none any longer. If two give up an object at the same time, one of them learns that it is
// the last.
func (x *Index) GiveUp(name types.NamespacedName, key inventory.Key, verified Verifier, locations ...Location) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	h, counts := unique.Make(key), countsFor(name, verified)
	for _, location := range locations {
		for _, other := range x.objects[location][h] {
			if other == name || !x.lists[other].wants(key) || !counts(other) {
				continue
			}
			x.giveUp(name, key)
			return true
		}
	}
	return false
}

// Decline is GiveUp without the question: a ManagedResource has no say any longer in an object that it leaves where it
// is.
func (x *Index) Decline(name types.NamespacedName, key inventory.Key) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.giveUp(name, key)
}

func (x *Index) giveUp(name types.NamespacedName, key inventory.Key) {
	l := x.lists[name]
	if l == nil {
		return
	}
	if l.givenUp == nil {
		l.givenUp = map[inventory.Key]bool{}
	}
	l.givenUp[key] = true
}

// Keep ends all GiveUps and Declines of a ManagedResource: a run begins, and what it lists now it may want again.
func (x *Index) Keep(name types.NamespacedName) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if l := x.lists[name]; l != nil {
		l.givenUp = nil
	}
}

// Any returns the first, in order, of the objects of a location for which match is true and that a ManagedResource
// other than one lists and has a say in, with that ManagedResource. It walks over everything that is listed there by
// those that count; what namespaces list that were not verified costs nothing.
func (x *Index) Any(location Location, except types.NamespacedName, verified Verifier, match func(inventory.Key) bool) (
	key inventory.Key, by types.NamespacedName, found bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	for namespace, names := range x.namespaces[location] {
		if namespace != except.Namespace && (verified == nil || !verified(namespace)) {
			continue
		}
		for name := range names {
			if name == except {
				continue
			}
			l := x.lists[name]
			for _, h := range l.keys {
				k := h.Value()
				if !match(k) || !l.wants(k) {
					continue
				}
				if !found || cmp.Or(compareKeys(k, key), compareNames(name, by)) < 0 {
					key, by, found = k, name, true
				}
				break // the keys are in order
			}
		}
	}
	return key, by, found
}

// Len returns how many ManagedResources and how many of their objects are known.
func (x *Index) Len() (managedResources, objects int) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	for l := range maps.Values(x.lists) {
		objects += len(l.keys)
	}
	return len(x.lists), objects
}

func (x *Index) add(name types.NamespacedName, location Location, keys []handle) {
	if len(keys) == 0 {
		return
	}
	x.enter(name, location)
	objects := x.objects[location]
	if objects == nil {
		objects = make(map[handle][]types.NamespacedName, len(keys))
		x.objects[location] = objects
	}
	for _, key := range keys {
		objects[key] = append(objects[key], name)
	}
}

// enter notes that a ManagedResource lists something in a location.
func (x *Index) enter(name types.NamespacedName, location Location) {
	if x.namespaces[location] == nil {
		x.namespaces[location] = map[string]map[types.NamespacedName]struct{}{}
	}
	if x.namespaces[location][name.Namespace] == nil {
		x.namespaces[location][name.Namespace] = map[types.NamespacedName]struct{}{}
	}
	x.namespaces[location][name.Namespace][name] = struct{}{}
}

// remove takes keys out. A ManagedResource that still lists others enters again.
func (x *Index) remove(name types.NamespacedName, location Location, keys []handle) {
	objects := x.objects[location]
	for _, key := range keys {
		left := slices.DeleteFunc(objects[key], func(n types.NamespacedName) bool { return n == name })
		if len(left) == 0 {
			delete(objects, key)
		} else {
			objects[key] = left
		}
	}
	if objects != nil && len(objects) == 0 {
		delete(x.objects, location)
	}
	namespaces := x.namespaces[location]
	delete(namespaces[name.Namespace], name)
	if len(namespaces[name.Namespace]) == 0 {
		delete(namespaces, name.Namespace)
	}
	if namespaces != nil && len(namespaces) == 0 {
		delete(x.namespaces, location)
	}
}

// change is that a ManagedResource does not list some keys any longer, or leaves them to others.
func (x *Index) change(name types.NamespacedName, location Location, keys []handle) Change {
	names := map[types.NamespacedName]bool{}
	for _, key := range keys {
		for _, other := range x.objects[location][key] {
			if other != name {
				names[other] = true
			}
		}
	}
	return Change{
		Namespace: name.Namespace, Location: location, Concerned: slices.SortedFunc(maps.Keys(names), compareNames),
	}
}

// without returns the sorted keys of a that are not in the sorted b.
func without(a, b []handle) []handle {
	var out []handle
	for _, key := range a {
		if _, found := slices.BinarySearchFunc(b, key, compareHandles); !found {
			out = append(out, key)
		}
	}
	return out
}

func compareHandles(a, b handle) int {
	if a == b {
		return 0
	}
	return compareKeys(a.Value(), b.Value())
}

func compareKeys(a, b inventory.Key) int {
	return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Namespace, b.Namespace),
		cmp.Compare(a.Name, b.Name))
}

func compareNames(a, b types.NamespacedName) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}
