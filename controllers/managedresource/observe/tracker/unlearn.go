package tracker

import "k8s.io/apimachinery/pkg/types"

// Unlearn forgets how the objects of a ManagedResource were accepted, as a start does: the history of their target is
// another one. Its watches continue.
func (t *Tracker) Unlearn(mr types.NamespacedName) {
	tgt, m := t.lock(mr)
	if m == nil {
		return
	}
	defer tgt.mu.Unlock()
	for h, o := range m.objects {
		m.objects[h] = &object{watch: o.watch, more: o.more, createOnly: o.createOnly, scalable: o.scalable, round: o.round}
	}
	m.done, m.doneChanged = nil, false
	m.recount()
}
