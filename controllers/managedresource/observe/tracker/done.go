package tracker

import (
	"unique"

	"k8s.io/apimachinery/pkg/types"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/engine/inventory"
)

// A Job that its time to live removed after it had succeeded is done: it is not missing, and is not created again
// until its manifest changes.

// finish notes that an object with a UID is gone because it has done what it was for, and reports whether that is the
// one that was accepted. One that goes before it is accepted is, too, as soon as it is.
func (m *tracked) finish(h handle, o *object, uid types.UID) bool {
	if m.done == nil {
		m.done = map[handle]types.UID{}
	}
	m.done[h] = uid
	m.doneChanged = true
	if !m.isDone(h, o) {
		return false
	}
	m.unseen -= o.unseen()
	o.seen = true
	return true
}

// isDone reports whether an object is gone because it has done what it was for.
func (m *tracked) isDone(h handle, o *object) bool {
	uid, done := m.done[h]
	return done && o.known && o.missing && o.accepted.UID == uid
}

// showsAgain takes back that an object is done when its watch shows it: a target whose etcd was restored may have the
// same one again, which is yet to succeed.
func (m *tracked) showsAgain(n notifications, key inventory.Key, o *object) {
	if len(m.done) == 0 {
		return
	}
	h := unique.Make(key)
	if m.isDone(h, o) {
		m.doneChanged = true
		if !m.busy {
			n.add(m.name, CauseHealth)
		}
	}
	delete(m.done, h)
}

// TakeDone reports whether objects of a ManagedResource were done since it was asked last, or turned out not to be.
func (t *Tracker) TakeDone(mr types.NamespacedName) bool {
	tgt, m := t.lock(mr)
	if m == nil {
		return false
	}
	defer tgt.mu.Unlock()
	changed := m.doneChanged
	m.doneChanged = false
	return changed
}

// AcceptDone accepts objects that are not there as done, as a fingerprint has shown that they are.
func (t *Tracker) AcceptDone(mr types.NamespacedName, keys []inventory.Key, refs []resourcesv1alpha1.ObjectReference) {
	tgt, m := t.lock(mr)
	if m == nil {
		return
	}
	defer tgt.mu.Unlock()
	known := inventory.Index(refs)
	for _, key := range keys {
		h := unique.Make(key)
		o, ref := m.objects[h], known[key]
		if o == nil || ref == nil {
			continue
		}
		o.known, o.missing, o.accepted = true, true, Accepted{UID: ref.UID}
		m.finish(h, o, ref.UID)
	}
	m.doneChanged = false
	m.recount()
}
