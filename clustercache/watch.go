package clustercache

import (
	"context"
	"reflect"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// declaredWatch is one Watcher of a target. It outlives generations: each has a binding of its own that fills it, and
// what is kept stays until the next binding's initial list is complete and can be compared.
type declaredWatch struct {
	Watcher
	cluster ClusterKey
	ctx     context.Context // ends with Unwatch or the target
	cancel  context.CancelFunc

	boundTo int64 // number of the generation that it is bound to; only used by the target's loop

	// deliver makes changes and their handler calls one sequence. It is taken before mu, and never while holding it.
	deliver sync.Mutex
	feeder  *binding // whose events count; guarded by deliver

	mu       sync.RWMutex
	values   map[types.NamespacedName]any
	syncedBy *binding // whose initial list values come from; nil while that cannot be relied upon
}

func newDeclaredWatch(ctx context.Context, cluster ClusterKey, watcher Watcher) *declaredWatch {
	w := &declaredWatch{Watcher: watcher, cluster: cluster, values: map[types.NamespacedName]any{}}
	w.ctx, w.cancel = context.WithCancel(ctx)
	return w
}

func (w *declaredWatch) lookup(key types.NamespacedName) (value any, found, synced bool) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	value, found = w.values[key]
	return value, found, w.syncedLocked()
}

func (w *declaredWatch) each(f func(key types.NamespacedName, value any) bool) (synced bool) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	for key, value := range w.values {
		if !f(key, value) {
			break
		}
	}
	return w.syncedLocked()
}

func (w *declaredWatch) synced() bool {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return w.syncedLocked()
}

func (w *declaredWatch) syncedLocked() bool { return w.syncedBy != nil && w.syncedBy.ctx.Err() == nil }

// close ends the watch. No handler call begins after it.
func (w *declaredWatch) close() {
	w.cancel()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.values, w.syncedBy = map[types.NamespacedName]any{}, nil
}

// promote makes a binding the one that counts, and stops the one before. What the binding collected so far is compared
// with what is kept.
func (w *declaredWatch) promote(b *binding) {
	w.deliver.Lock()
	defer w.deliver.Unlock()
	if w.feeder != nil {
		w.feeder.cancel()
	}
	w.feeder = b
	if b.staged != nil {
		w.replaceLocked(b, b.staged)
		b.staged = nil
	}
}

// replace takes a complete list.
func (w *declaredWatch) replace(b *binding, values map[types.NamespacedName]any) {
	w.deliver.Lock()
	defer w.deliver.Unlock()
	switch {
	case b.ctx.Err() != nil:
	case w.feeder != b:
		b.staged = values
	default:
		w.replaceLocked(b, values)
	}
}

func (w *declaredWatch) replaceLocked(b *binding, values map[types.NamespacedName]any) {
	w.mu.Lock()
	before := w.values
	w.values, w.syncedBy = values, b
	w.mu.Unlock()
	if w.Handler == nil {
		return
	}
	// The handler may look things up meanwhile; the maps are not written to, for that needs deliver.
	for key, value := range values {
		if old, existed := before[key]; !existed || !unchanged(old, value) {
			w.notify(func() { w.Handler.OnUpdate(w.cluster, w.Name, key, old, value) })
		}
	}
	for key, old := range before {
		if _, exists := values[key]; !exists {
			w.notify(func() { w.Handler.OnDelete(w.cluster, w.Name, key, old) })
		}
	}
	w.notify(func() { w.Handler.OnSynced(w.cluster, w.Name) })
}

// set takes an object that was added or changed.
func (w *declaredWatch) set(b *binding, key types.NamespacedName, value any) {
	w.deliver.Lock()
	defer w.deliver.Unlock()
	if !w.accepts(b, func() { b.staged[key] = value }) {
		return
	}
	w.mu.Lock()
	old := w.values[key]
	w.values[key] = value
	w.mu.Unlock()
	if w.Handler != nil {
		w.notify(func() { w.Handler.OnUpdate(w.cluster, w.Name, key, old, value) })
	}
}

// remove takes an object that left the selection.
func (w *declaredWatch) remove(b *binding, key types.NamespacedName) {
	w.deliver.Lock()
	defer w.deliver.Unlock()
	if !w.accepts(b, func() { delete(b.staged, key) }) {
		return
	}
	w.mu.Lock()
	old, existed := w.values[key]
	delete(w.values, key)
	w.mu.Unlock()
	if existed && w.Handler != nil {
		w.notify(func() { w.Handler.OnDelete(w.cluster, w.Name, key, old) })
	}
}

// accepts tells whether an event of a binding is to be applied. One of a binding that waits for its turn is staged.
func (w *declaredWatch) accepts(b *binding, stage func()) bool {
	if b.ctx.Err() != nil {
		return false
	}
	if w.feeder != b && b.staged != nil {
		stage()
	}
	return w.feeder == b
}

// fail notes that a binding cannot watch: what is kept may be outdated.
func (w *declaredWatch) fail(b *binding, err error) {
	w.deliver.Lock()
	defer w.deliver.Unlock()
	if b.ctx.Err() != nil || w.feeder != b {
		return
	}
	w.mu.Lock()
	w.syncedBy = nil
	w.mu.Unlock()
	if w.Handler != nil {
		w.notify(func() { w.Handler.OnError(w.cluster, w.Name, err) })
	}
}

// notify calls the handler unless the watch was ended.
func (w *declaredWatch) notify(call func()) {
	if w.ctx.Err() == nil {
		call()
	}
}

// keep turns an object into what is kept.
func (w *declaredWatch) keep(obj client.Object) any {
	if w.Transform != nil {
		return w.Transform(obj)
	}
	obj.SetManagedFields(nil)
	return obj
}

// unchanged tells whether two kept values are the same.
func unchanged(a, b any) bool {
	x, isObject := a.(client.Object)
	y, alsoObject := b.(client.Object)
	if isObject && alsoObject && x.GetResourceVersion() != "" {
		return x.GetUID() == y.GetUID() && x.GetResourceVersion() == y.GetResourceVersion()
	}
	return reflect.DeepEqual(a, b)
}
