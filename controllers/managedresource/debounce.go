package managedresource

import "time"

// Pauses between writes that are about health alone: the first change is written at once, and what comes within the
// pause together. A condition whose status changes waits less than one that only has another text. One that keeps
// changing waits twice as long each time, after a few changes that belong to any roll-out, until it was quiet for a
// while or everything was applied again.
const (
	debounceStatus = 250 * time.Millisecond
	debounceText   = time.Second
	debounceMost   = 10 * time.Second
	debounceFree   = 5
	debounceQuiet  = time.Minute
)

// debounce returns how long to wait until the last write about health is a pause ago, which is longer while conditions
// keep turning. If it is, another one is written now. A change without a pause waits for nothing.
func (s *state) debounce(pause time.Duration, turned bool, now time.Time) (wait time.Duration) {
	if now.Sub(s.turnedAt) >= debounceQuiet {
		s.turns = 0
	}
	if turned {
		s.turnedAt = now
	}
	if over := s.turns - debounceFree; pause > 0 && over >= 0 {
		pause = max(pause, doubled(2*debounceStatus, debounceMost, over))
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
