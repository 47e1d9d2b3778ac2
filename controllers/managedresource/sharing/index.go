package sharing

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"
	"unique"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/controllers/managedresource/inventory"
)

// Index holds what ManagedResources list. The zero value is not ready for use; NewIndex makes one.
type Index struct {
	mu       sync.RWMutex
	lists    map[types.NamespacedName]*list
	clusters map[types.UID]map[handle][]types.NamespacedName
}

// handle is a key in little memory: nearly all clusters have objects of the same names.
type handle = unique.Handle[inventory.Key]

// list is what one ManagedResource lists.
type list struct {
	uid             types.UID
	resourceVersion string
	cluster         types.UID
	keys            []handle // in the order of the keys
	// leaving is true if it deletes its objects itself.
	leaving bool
	// givenUp are objects that it is about to stop listing, without deleting them, because others list them or own them.
	givenUp map[inventory.Key]bool
}

// wants tells whether it has a say in an object that it lists.
func (l *list) wants(key inventory.Key) bool { return !l.leaving && !l.givenUp[key] }

// Unbound stands for the cluster of the ManagedResources of a namespace that carry a finalizer and are not bound to a
// cluster by this hub: a Gardener resource manager of that class applied them.
func Unbound(namespace, finalizer string) types.UID {
	return types.UID("unbound/" + namespace + "/" + finalizer)
}

// NewIndex returns an empty index.
func NewIndex() *Index {
	return &Index{lists: map[types.NamespacedName]*list{}, clusters: map[types.UID]map[handle][]types.NamespacedName{}}
}

// Observe takes note of a ManagedResource as it was read or written. An older state than the one that is known changes
// nothing. It returns the other ManagedResources that list something which this one does not list any more, or leaves to
// them from now on.
func (x *Index) Observe(mr *resourcesv1alpha1.ManagedResource) (concerned []types.NamespacedName) {
	name := types.NamespacedName{Namespace: mr.Namespace, Name: mr.Name}
	now := &list{
		uid: mr.UID, resourceVersion: mr.ResourceVersion, cluster: types.UID(mr.Annotations[hubv1alpha1.TargetUIDAnnotation]),
		leaving: mr.DeletionTimestamp != nil && (mr.Spec.KeepObjects == nil || !*mr.Spec.KeepObjects),
	}
	if now.cluster == "" {
		for _, f := range mr.Finalizers {
			if strings.HasPrefix(f, resourcesv1alpha1.FinalizerBase) {
				now.cluster = Unbound(mr.Namespace, f)
				break
			}
		}
	}
	if now.cluster != "" {
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
	if before != nil && older(now.resourceVersion, before.resourceVersion) {
		return nil
	}
	x.lists[name] = now
	if before != nil && before.uid == now.uid {
		now.givenUp = before.givenUp
	}
	if before == nil {
		x.add(name, now.cluster, now.keys)
		return nil
	}
	if before.cluster == now.cluster && slices.Equal(before.keys, now.keys) {
		now.keys = before.keys // one copy
		if now.leaving && !before.leaving {
			return x.sharing(name, now.cluster, now.keys)
		}
		return nil
	}
	gone := before.keys
	if before.cluster == now.cluster {
		gone = without(before.keys, now.keys)
		x.add(name, now.cluster, without(now.keys, before.keys))
	} else {
		x.add(name, now.cluster, now.keys)
	}
	x.remove(name, before.cluster, gone)
	if now.leaving && !before.leaving {
		gone = before.keys
	}
	return x.sharing(name, before.cluster, gone)
}

// Forget drops a ManagedResource that does not exist any more and returns the others that list something it listed. uid is
// that of the one that is gone; another one of the same name that was observed meanwhile stays.
func (x *Index) Forget(name types.NamespacedName, uid types.UID) (concerned []types.NamespacedName) {
	x.mu.Lock()
	defer x.mu.Unlock()
	before := x.lists[name]
	if before == nil || before.uid != uid {
		return nil
	}
	delete(x.lists, name)
	x.remove(name, before.cluster, before.keys)
	return x.sharing(name, before.cluster, before.keys)
}

// Others returns, sorted, the ManagedResources but one that list an object in a cluster and have a say in it.
func (x *Index) Others(cluster types.UID, key inventory.Key, except types.NamespacedName) []types.NamespacedName {
	x.mu.RLock()
	defer x.mu.RUnlock()
	var others []types.NamespacedName
	for _, name := range x.clusters[cluster][unique.Make(key)] {
		if name != except && x.lists[name].wants(key) {
			others = append(others, name)
		}
	}
	slices.SortFunc(others, compareNames)
	return others
}

// GiveUp tells whether another ManagedResource lists an object in one of the clusters and has a say in it, and if so, that
// this one has none any more. Of two that give up an object at the same time, one learns that it is the last.
func (x *Index) GiveUp(name types.NamespacedName, key inventory.Key, clusters ...types.UID) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	h := unique.Make(key)
	for _, cluster := range clusters {
		for _, other := range x.clusters[cluster][h] {
			if other == name || !x.lists[other].wants(key) {
				continue
			}
			x.giveUp(name, key)
			return true
		}
	}
	return false
}

// Decline is GiveUp without the question: a ManagedResource has no say any more in an object that it leaves where it is.
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

// Shared returns those of the keys that others list, too, and have a say in.
func (x *Index) Shared(cluster types.UID, keys []inventory.Key, except types.NamespacedName) map[inventory.Key]bool {
	shared := map[inventory.Key]bool{}
	for _, key := range keys {
		if len(x.Others(cluster, key, except)) > 0 {
			shared[key] = true
		}
	}
	return shared
}

// Any returns the first, in order, of the objects of a cluster for which match is true and that a ManagedResource other
// than one lists, with that ManagedResource. It walks over everything listed in the cluster.
func (x *Index) Any(cluster types.UID, except types.NamespacedName, match func(inventory.Key) bool) (key inventory.Key, by types.NamespacedName, found bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	for h, names := range x.clusters[cluster] {
		k := h.Value()
		if found && compareKeys(key, k) <= 0 || !match(k) {
			continue
		}
		for _, name := range slices.SortedFunc(slices.Values(names), compareNames) {
			if name != except && x.lists[name].wants(k) {
				key, by, found = k, name, true
				break
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

func (x *Index) add(name types.NamespacedName, cluster types.UID, keys []handle) {
	if len(keys) == 0 {
		return
	}
	objects := x.clusters[cluster]
	if objects == nil {
		objects = make(map[handle][]types.NamespacedName, len(keys))
		x.clusters[cluster] = objects
	}
	for _, key := range keys {
		objects[key] = append(objects[key], name)
	}
}

func (x *Index) remove(name types.NamespacedName, cluster types.UID, keys []handle) {
	objects := x.clusters[cluster]
	for _, key := range keys {
		left := slices.DeleteFunc(objects[key], func(n types.NamespacedName) bool { return n == name })
		if len(left) == 0 {
			delete(objects, key)
		} else {
			objects[key] = left
		}
	}
	if objects != nil && len(objects) == 0 {
		delete(x.clusters, cluster)
	}
}

// sharing returns who lists any of the keys, but one.
func (x *Index) sharing(except types.NamespacedName, cluster types.UID, keys []handle) []types.NamespacedName {
	names := map[types.NamespacedName]bool{}
	for _, key := range keys {
		for _, name := range x.clusters[cluster][key] {
			if name != except {
				names[name] = true
			}
		}
	}
	return slices.SortedFunc(maps.Keys(names), compareNames)
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
	return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

func compareNames(a, b types.NamespacedName) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// older tells whether a resource version is older than another. Versions that cannot be compared count as newer.
func older(a, b string) bool {
	c, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && c < 0
}
