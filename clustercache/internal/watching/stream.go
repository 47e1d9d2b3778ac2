package watching

import (
	"context"
	"errors"
	"reflect"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Spec says what is watched and what becomes of it.
type Spec struct {
	// Cluster is the target, and Name what the stream is called in logs and messages.
	Cluster types.NamespacedName
	Name    string

	// Kind, MetadataOnly, Namespace and the selectors say which objects are asked for, and how much of them.
	Kind          schema.GroupVersionKind
	MetadataOnly  bool
	Namespace     string
	LabelSelector labels.Selector
	FieldSelector fields.Selector
	// Fields are the paths of what is looked at of whole objects beside metadata. Nil: everything.
	Fields [][]string
	// Optional says that the target may never serve the kind.
	Optional bool

	// Quota is what the watch shares with others of its target. Nil: it may keep any number of objects.
	Quota *Quota
	// Transform turns an object into what is kept. Nil keeps it without managedFields.
	Transform func(obj client.Object) any
}

// Handler receives the changes of a stream, one at a time. watch is the name of the subscription.
type Handler interface {
	OnUpdate(cluster types.NamespacedName, watch string, key types.NamespacedName, old, value any)
	OnDelete(cluster types.NamespacedName, watch string, key types.NamespacedName, old any)
	OnSynced(cluster types.NamespacedName, watch string)
	OnError(cluster types.NamespacedName, watch string, err error)
}

// Stream is a watch that outlives connections, for any number of subscriptions. What is kept stays until the next
// binding's initial list is complete and can be compared.
type Stream struct {
	spec   Spec
	ctx    context.Context // ends with the stream
	cancel context.CancelFunc

	// deliver makes changes and the calls of handlers one sequence. It is taken before mu, and never while holding it.
	deliver sync.Mutex
	feeder  *Binding // whose events count; guarded by deliver
	fault   error    // why nothing can be watched, as the handlers know it; guarded by deliver

	mu       sync.RWMutex
	values   map[types.NamespacedName]any
	bytes    int64    // that they take
	foreign  bool     // they are of another history than what comes next: equal versions mean nothing
	syncedBy *Binding // keeps values up to date; nil while they cannot be relied upon
	absentBy *Binding // whose target lacks the kind, which is optional; nil if it has it, or that is not known
	outages  uint64   // the connection of syncedBy had had by then: after another one values may be outdated
	// subscribed are those whose handlers are called. The slice is replaced, never changed.
	subscribed []*Subscription
}

// NewStream returns a stream without a binding and without subscriptions. It ends with ctx at the latest.
func NewStream(ctx context.Context, spec Spec) *Stream {
	w := &Stream{spec: spec, values: map[types.NamespacedName]any{}}
	w.ctx, w.cancel = context.WithCancel(ctx)
	return w
}

// Lookup returns what is kept of an object, and whether absence can be relied upon.
func (w *Stream) Lookup(key types.NamespacedName) (value any, found, synced bool) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	value, found = w.values[key]
	return value, found, w.syncedLocked()
}

// Range calls f for all that is kept, until it returns false. f must not call the watch.
func (w *Stream) Range(f func(key types.NamespacedName, value any) bool) (synced bool) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	for key, value := range w.values {
		if !f(key, value) {
			break
		}
	}
	return w.syncedLocked()
}

// Synced reports whether absence can be relied upon.
func (w *Stream) Synced() bool {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return w.syncedLocked()
}

// State is what a stream has to show.
type State struct {
	// Synced is true if absence can be relied upon.
	Synced bool
	// Absent is true if the target does not have the kind, and may do without it.
	Absent bool
	// Objects is how many are kept.
	Objects int
}

// State returns what the stream has to show.
func (w *Stream) State() State {
	w.mu.RLock()
	defer w.mu.RUnlock()
	absent := w.absentBy != nil && w.absentBy.ctx.Err() == nil && w.absentBy.connection.suspended() == nil
	return State{Synced: w.syncedLocked(), Absent: absent, Objects: len(w.values)}
}

// Spec returns what is watched.
func (w *Stream) Spec() Spec { return w.spec }

func (w *Stream) syncedLocked() bool {
	return w.trustsLocked(w.syncedBy) && w.syncedBy.connection.suspended() == nil
}

func (w *Stream) trustsLocked(b *Binding) bool {
	return b != nil && w.syncedBy == b && b.ctx.Err() == nil && b.connection.outages() == w.outages
}

// trusts reports whether values are up to date as far as a binding is.
func (w *Stream) trusts(b *Binding) bool {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return w.trustsLocked(b)
}

// Distrust stops the binding that counts. What is kept is of another history than what the next one brings: an object
// may be another one although its version is the same. It stays until a list is complete, so that deletions are
// found.
func (w *Stream) Distrust() {
	w.deliver.Lock()
	defer w.deliver.Unlock()
	if w.feeder != nil {
		w.feeder.cancel()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.syncedBy, w.foreign = nil, true
}

// sameLocked reports whether what is kept of an object is what has come.
func (w *Stream) sameLocked(kept, value any) bool { return !w.foreign && unchanged(kept, value) }

// distrust notes that a binding may have missed something.
func (w *Stream) distrust(b *Binding) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.syncedBy == b {
		w.syncedBy = nil
	}
}

// trust notes that a binding has missed nothing, unless there was another outage than these.
func (w *Stream) trust(b *Binding, outages uint64) {
	w.deliver.Lock()
	defer w.deliver.Unlock()
	if b.ctx.Err() != nil || w.feeder != b {
		return
	}
	w.mu.Lock()
	if w.spec.Quota.evicted(w) {
		w.mu.Unlock()
		return
	}
	w.syncedBy, w.absentBy, w.outages = b, nil, outages
	synced := w.syncedLocked()
	w.mu.Unlock()
	if synced {
		w.synced()
	}
}

// Close ends the watch. No handler call begins after it.
func (w *Stream) Close() {
	w.cancel()
	w.forget()
	w.shrink()
	w.spec.Quota.fits(w)
}

// forget drops what is kept.
func (w *Stream) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.values, w.bytes, w.syncedBy = map[types.NamespacedName]any{}, 0, nil
}

// shrink gives back what is not needed of the memory for what is kept.
func (w *Stream) shrink() {
	w.mu.RLock()
	defer w.mu.RUnlock()
	w.spec.Quota.keep(w, w.sizeLocked())
}

func (w *Stream) sizeLocked() Size { return Size{len(w.values), w.bytes} }

// yield drops what a binding may have brought since its watch was evicted.
func (w *Stream) yield(b *Binding) {
	w.deliver.Lock()
	defer w.deliver.Unlock()
	if w.spec.Quota.evicted(w) {
		b.staged = nil
		w.forget()
		w.shrink()
	}
}

// Promote makes a binding the one that counts, and stops the one before. What the binding collected so far is compared
// with what is kept.
func (w *Stream) Promote(b *Binding) {
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
func (w *Stream) replace(b *Binding, list *list) {
	w.deliver.Lock()
	defer w.deliver.Unlock()
	switch {
	case b.ctx.Err() != nil:
	case w.feeder != b:
		b.staged = list
	default:
		w.replaceLocked(b, list)
	}
}

func (w *Stream) replaceLocked(b *Binding, list *list) {
	w.mu.Lock()
	before, values, foreign := w.values, list.values, w.foreign
	w.values, w.bytes, w.syncedBy, w.outages, w.foreign = values, list.bytes, b, b.connection.outages(), false
	w.absentBy = nil
	w.mu.Unlock()
	w.shrink()
	w.spec.Quota.fits(w)
	// Handlers may look things up meanwhile; the maps are not written to, for that needs deliver.
	for key, value := range values {
		if old, existed := before[key]; !existed || foreign || !unchanged(old, value) {
			w.updated(key, old, value)
		}
	}
	for key, old := range before {
		if _, exists := values[key]; !exists {
			w.deleted(key, old)
		}
	}
	w.synced()
}

// set takes an object that was added or changed. It returns false if there is no quota for it.
func (w *Stream) set(b *Binding, key types.NamespacedName, value any) bool {
	w.deliver.Lock()
	defer w.deliver.Unlock()
	fits := true
	if !w.accepts(b, func() { fits = w.put(b, b.staged, key, value) }) {
		return fits
	}
	w.mu.RLock()
	old, existed := w.values[key]
	before := w.sizeLocked()
	w.mu.RUnlock()
	after := before.plus(Size{1, sizeOf(key, value)})
	if existed {
		after = after.minus(Size{1, sizeOf(key, old)})
	}
	if fits = w.spec.Quota.reserve(w, after); fits {
		w.mu.Lock()
		w.values[key], w.bytes = value, after.Bytes
		w.mu.Unlock()
	}
	if after.Bytes < before.Bytes {
		w.shrink()
	}
	if fits {
		w.updated(key, old, value)
	}
	return fits
}

// remove takes an object that left the selection.
func (w *Stream) remove(b *Binding, key types.NamespacedName) {
	w.deliver.Lock()
	defer w.deliver.Unlock()
	if !w.accepts(b, func() { w.take(b.staged, key) }) {
		return
	}
	w.mu.Lock()
	old, existed := w.values[key]
	if existed {
		delete(w.values, key)
		w.bytes -= sizeOf(key, old)
	}
	w.mu.Unlock()
	w.shrink()
	w.spec.Quota.wake()
	if existed {
		w.deleted(key, old)
	}
}

// accepts reports whether an event of a binding is to be applied. One of a binding that waits for its turn is staged.
func (w *Stream) accepts(b *Binding, stage func()) bool {
	if b.ctx.Err() != nil {
		return false
	}
	if w.feeder != b && b.staged != nil {
		stage()
	}
	return w.feeder == b
}

// fail notes that a binding cannot watch: what is kept may be outdated.
func (w *Stream) fail(b *Binding, err error) {
	w.deliver.Lock()
	defer w.deliver.Unlock()
	if b.ctx.Err() != nil || w.feeder != b {
		return
	}
	w.mu.Lock()
	w.syncedBy, w.absentBy = nil, nil
	if w.spec.Optional && meta.IsNoMatchError(err) {
		w.absentBy = b
	}
	w.mu.Unlock()
	if errors.Is(err, ErrTooMany) {
		w.spec.Quota.reported(w)
	}
	w.fault = err
	for _, s := range w.subscriptions() {
		s.notify(func(h Handler) { h.OnError(w.spec.Cluster, s.name, err) })
	}
}

// Done is closed when the watch has ended.
func (w *Stream) Done() <-chan struct{} { return w.ctx.Done() }

// Name is that of the spec.
func (w *Stream) Name() string { return w.spec.Name }

// keep turns an object into what is kept.
func (w *Stream) keep(obj client.Object) any {
	if w.spec.Transform != nil {
		return w.spec.Transform(obj)
	}
	obj.SetManagedFields(nil)
	return obj
}

// unchanged reports whether two kept values are the same.
func unchanged(a, b any) bool {
	x, isObject := a.(client.Object)
	y, alsoObject := b.(client.Object)
	if isObject && alsoObject && x.GetResourceVersion() != "" {
		return x.GetUID() == y.GetUID() && x.GetResourceVersion() == y.GetResourceVersion()
	}
	return reflect.DeepEqual(a, b)
}
