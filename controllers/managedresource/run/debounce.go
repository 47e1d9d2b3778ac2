package run

import "time"

// Pauses between writes that are about health alone: the first change is written at once, and what comes within the
// pause together. A condition whose status changes waits less than one that only has another text. One that keeps
// changing waits twice as long each time, after a few changes that belong to any roll-out, until it was quiet for a
// while or everything was applied again.
const (
	DebounceStatus = 250 * time.Millisecond
	DebounceText   = time.Second
	DebounceMost   = 10 * time.Second
	DebounceFree   = 5
	DebounceQuiet  = time.Minute
)

// Debounce returns how long to wait until the last write about health is a pause ago, which is longer while conditions
// keep turning. If it is, another one is written now. A change without a pause waits for nothing.
func (s *State) Debounce(pause time.Duration, turned bool, now time.Time) (wait time.Duration) {
	if now.Sub(s.turnedAt) >= DebounceQuiet {
		s.turns = 0
	}
	if turned {
		s.turnedAt = now
	}
	if over := s.turns - DebounceFree; pause > 0 && over >= 0 {
		pause = max(pause, doubled(2*DebounceStatus, DebounceMost, over))
	}
	if wait = s.healthAt.Add(pause).Sub(now); wait > 0 {
		return wait
	}
	if s.turnedAt.After(s.healthAt) { // whether or not it is back by now
		s.turns++
	}
	s.healthAt = now
	return 0
}
