package watching

import "k8s.io/apimachinery/pkg/types"

// list holds what a list has brought so far, beside what the watch keeps.
type list struct {
	values map[types.NamespacedName]any
	bytes  int64 // that the values take
	own    int64 // of that, what the watch does not keep, too
}

func newList() *list { return &list{values: map[types.NamespacedName]any{}} }

func (l *list) size() Size { return Size{len(l.values), l.bytes} }

// put adds an object to a list beside what the watch keeps. It returns false if there is no quota for it. What has not
// changed is kept once. A list may take a quarter more than the quota allows together with what it replaces.
func (w *Stream) put(b *Binding, l *list, key types.NamespacedName, value any) bool {
	w.take(l, key)
	size := sizeOf(key, value)
	w.mu.RLock()
	old, existed := w.values[key]
	same := existed && w.sameLocked(old, value)
	kept := w.bytes
	w.mu.RUnlock()
	own := size
	if same {
		value, own = old, 0
	}
	alone := Size{len(l.values) + 1, l.bytes + size}
	beside := alone.larger(Size{Bytes: (kept + l.own + own) / 5 * 4})
	quota := w.spec.Quota
	if kept > 0 && beside != alone && !quota.has(w, beside) && w.giveWay(b, alone) {
		beside = alone
	}
	if !quota.reserve(w, beside) {
		return false
	}
	l.values[key] = value
	l.bytes += size
	l.own += own
	return true
}

// giveWay drops what a watch keeps if its list fits without that, unless another binding feeds the watch. Deletions
// cannot be found without what was kept, so the handler gets an error, and looks at everything again once the list
// is complete.
func (w *Stream) giveWay(b *Binding, alone Size) bool {
	w.deliver.Lock()
	feeds := w.feeder == b
	w.deliver.Unlock()
	if !feeds || !w.spec.Quota.has(w, alone) {
		return false
	}
	w.forget()
	w.fail(b, ErrTooMany)
	return true
}

// take takes an object out of a list.
func (w *Stream) take(l *list, key types.NamespacedName) {
	value, existed := l.values[key]
	if !existed {
		return
	}
	delete(l.values, key)
	size := sizeOf(key, value)
	l.bytes -= size
	w.mu.RLock()
	old, kept := w.values[key]
	same := kept && w.sameLocked(old, value)
	w.mu.RUnlock()
	if !same {
		l.own = max(l.own-size, 0)
	}
}
