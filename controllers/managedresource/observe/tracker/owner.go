package tracker

import (
	"unique"

	"k8s.io/apimachinery/pkg/types"

	"github.com/trellis-hub/trellis/engine/inventory"
)

// noteOwner keeps which owner an object named when it went. The garbage collector of its target deletes what has no
// owner.
func (m *tracked) noteOwner(h handle, before *Observation) {
	if before == nil || before.Owner == nil {
		delete(m.owned, h)
		return
	}
	if m.owned == nil {
		m.owned = map[handle]string{}
	}
	m.owned[h] = *before.Owner
}

// OwnerOf is the owner that an object named when it went last, as kind and name; empty if it named none, or did not go.
func (t *Tracker) OwnerOf(mr types.NamespacedName, key inventory.Key) string {
	tgt, m := t.lock(mr)
	if m == nil {
		return ""
	}
	defer tgt.mu.Unlock()
	return m.owned[unique.Make(key)]
}
