package run

import (
	"slices"
	"time"

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
	by    string      // who changed it last, and what; empty if unknown
}

// until is when a fight counts as over unless it continues; the zero time if there is none.
func (f *fight) until() time.Time {
	if len(f.times) < fightCorrections {
		return time.Time{}
	}
	return f.times[0].Add(fightWindow)
}

// Fought notes that an object was corrected after another writer changed it.
func (s *State) Fought(key inventory.Key, by string, now time.Time) {
	s.forgetQuiet(now)
	if s.fights == nil {
		s.fights = map[inventory.Key]*fight{}
	}
	f := s.fights[key]
	if f == nil {
		f = &fight{}
		s.fights[key] = f
	}
	if len(f.times) == fightCorrections {
		f.times = slices.Delete(f.times, 0, 1)
	}
	f.times = append(f.times, now)
	if by != "" {
		f.by = by
	}
}

// Contested returns the objects that another writer keeps changing, with that writer, and when the first of these
// fights counts as over.
func (s *State) Contested(now time.Time) (by map[inventory.Key]string, until time.Time) {
	s.forgetQuiet(now)
	for key, f := range s.fights {
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
	return by, until
}
