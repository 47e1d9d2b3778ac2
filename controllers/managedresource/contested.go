package managedresource

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/controllers/managedresource/observe/conditions"
	"github.com/trellis-hub/trellis/engine/inventory"
)

// Two writers fight over an object when it was corrected so often within so long.
const (
	fightCorrections = 5
	fightWindow      = 10 * time.Minute
)

// fight is the record of the last corrections of one object.
type fight struct {
	times []time.Time // the last ones, at most fightCorrections, of within fightWindow (forgetQuiet)
	by    string      // who changed it last, and what; empty if nobody can tell
}

// until is when a fight counts as over unless it goes on; the zero time if there is none.
func (f *fight) until() time.Time {
	if len(f.times) < fightCorrections {
		return time.Time{}
	}
	return f.times[0].Add(fightWindow)
}

// fought notes that an object was brought back after somebody changed it.
func (m *memory) fought(name types.NamespacedName, key inventory.Key, by string, now time.Time) {
	m.with(name, func(e *remembered) {
		e.forgetQuiet(now)
		if e.fights == nil {
			e.fights = map[inventory.Key]*fight{}
		}
		f := e.fights[key]
		if f == nil {
			f = &fight{}
			e.fights[key] = f
		}
		if len(f.times) == fightCorrections {
			f.times = slices.Delete(f.times, 0, 1)
		}
		f.times = append(f.times, now)
		if by != "" {
			f.by = by
		}
	})
}

// contested returns who fights over which object, and when the first of these fights counts as over.
func (m *memory) contested(name types.NamespacedName, now time.Time) (by map[inventory.Key]string, until time.Time) {
	m.with(name, func(e *remembered) {
		e.forgetQuiet(now)
		for key, f := range e.fights {
			over := f.until()
			if over.IsZero() {
				continue
			}
			if by == nil {
				by = map[inventory.Key]string{}
			}
			by[key] = f.by
			if until.IsZero() || over.Before(until) {
				until = over
			}
		}
	})
	return by, until
}

// contest sets the Contested condition. A ManagedResource that nobody ever fought over has none. The text names no numbers,
// so that it does not change with every round.
func (r *reconciler) contest(s *resourcesv1alpha1.ManagedResourceStatus, name types.NamespacedName) {
	by, _ := r.memory.contested(name, r.clock.Now())
	if len(by) == 0 {
		if resourcesv1alpha1.GetCondition(s.Conditions, resourcesv1alpha1.ConditionContested) != nil {
			r.setCondition(s, resourcesv1alpha1.ConditionContested, resourcesv1alpha1.ConditionFalse, resourcesv1alpha1.ReasonUncontested,
				"Nobody else keeps changing the resources.")
		}
		return
	}
	lines := make([]string, 0, len(by))
	for _, key := range slices.SortedFunc(maps.Keys(by), inventory.Key.Compare) {
		line := fmt.Sprintf("%s is changed again and again", key)
		if by[key] != "" {
			line += " by " + by[key]
		}
		lines = append(lines, line)
	}
	r.setCondition(s, resourcesv1alpha1.ConditionContested, resourcesv1alpha1.ConditionTrue, resourcesv1alpha1.ReasonObjectsContested,
		"Corrections are slowed down: "+conditions.List(lines))
}
