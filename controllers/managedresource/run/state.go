package run

import (
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/trellis-hub/trellis/controllers/managedresource/observe/conditions"
	"github.com/trellis-hub/trellis/engine/bundle"
	"github.com/trellis-hub/trellis/engine/inventory"
)

// Pauses between attempts. A run that failed is tried again after 1 s, doubled up to 5 min. An object whose drift comes
// back is corrected at once for a few times, then after 1 s, doubled up to 1 min, until it was quiet for 10 min. One
// that is read again and again although nothing is wrong waits for 2 s at most: the next change may be drift. A run
// that finds no memory for its bundle is tried again after about a second, doubled up to 8 s.
const (
	RetryFirst = time.Second
	retryLast  = 5 * time.Minute

	putOffFirst = time.Second
	putOffLast  = 8 * time.Second

	driftFree   = 5
	DriftFirst  = time.Second
	driftLast   = time.Minute
	driftMemory = 10 * time.Minute
	lookLast    = 2 * time.Second
)

// State is what is remembered of a ManagedResource between runs. It belongs to the worker that has the ManagedResource
// in hand, so it needs no lock. All of it may be lost: the zero value is that of a ManagedResource nothing is known of.
type State struct {
	// What was applied.
	Input     string                                 // applied as far as it is ours to apply; empty if not all of it was
	Last      *conditions.Condition                  // the result of the last run of everything
	appliedAt time.Time                              // everything, right or not; zero if not since the start
	NoteDue   time.Time                              // when the applied annotation is to be written; zero if it is
	Yields    map[inventory.Key]types.NamespacedName // objects that were left to another ManagedResource
	absent    map[inventory.Key]time.Time            // since when such an object is gone
	Rewinds   int64                                  // of the target, as of the last run

	// What is to be done.
	Demanded bool                   // an apply is asked for, whether or not anything changed
	Awaited  map[inventory.Key]bool // objects that have to go before the next run can succeed

	// Failures.
	failedInput string
	failures    int
	retryAt     time.Time
	NoAnswer    bool        // to some call of the last run
	Needs       bundle.Need // the memory that the last run lacked; zero if it was not put off
	putOffs     int         // how many runs in a row were put off

	// What the watches showed.
	waitsSince time.Time // for the first lists, without knowing the objects; zero once they are known
	blindSince time.Time // some watch showed nothing; zero if all do

	// Writes about health.
	healthAt time.Time // the conditions of health were written last, alone
	turnedAt time.Time // one of them changed its status last, written or not
	turns    int       // how many writes changed a status, without a quiet moment

	// Drift.
	corrections map[inventory.Key]*corrections
	fights      map[inventory.Key]*fight

	content      *bundle.Kept // of its Secrets as they were when it was read last; nil if that is not kept
	contentInput string       // that it belongs to
}

type corrections struct {
	count int
	looks int // that found nothing wrong
	last  time.Time
	next  time.Time
}

// States hands out the state of each ManagedResource to one worker at a time.
type States struct {
	mu    sync.Mutex
	all   map[types.NamespacedName]*State
	inUse map[types.NamespacedName]bool
}

// NewStates returns the states of no ManagedResource.
func NewStates() *States {
	return &States{all: map[types.NamespacedName]*State{}, inUse: map[types.NamespacedName]bool{}}
}

// Take returns the state of a ManagedResource, false if another worker has it. Give ends that.
func (s *States) Take(name types.NamespacedName) (*State, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.inUse[name] {
		return nil, false
	}
	s.inUse[name] = true
	st := s.all[name]
	if st == nil {
		st = &State{}
		s.all[name] = st
	}
	return st, true
}

// Give has other workers take the state of a ManagedResource. One that was forgotten is dropped.
func (s *States) Give(name types.NamespacedName, forgotten bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.inUse, name)
	if forgotten {
		delete(s.all, name)
	}
}

// Forget has nothing remembered.
func (s *State) Forget() { *s = State{} }

// Succeeded ends a wait and forgets failures: an input was applied.
func (s *State) Succeeded(input string) {
	s.Input = input
	s.waitsSince, s.Demanded, s.failures, s.failedInput, s.Awaited = time.Time{}, false, 0, "", nil
}

// Failed notes a failed run and returns the pause before the next one. Another input starts again. A run that an event
// brought before its time does not make the pause longer: objects that go one by one would make it minutes.
func (s *State) Failed(input string, now time.Time) (pause time.Duration) {
	if s.failedInput != input {
		s.failedInput, s.failures = input, 0
	}
	s.Input, s.Demanded = "", false
	if s.failures == 0 || !now.Before(s.retryAt) {
		s.retryAt = now.Add(doubled(RetryFirst, retryLast, s.failures))
		s.failures++
	}
	return s.retryAt.Sub(now)
}

// FailedWith reports whether the last run failed with an input.
func (s *State) FailedWith(input string) bool { return s.failures > 0 && s.failedInput == input }

// Backoff is the rest of the pause after a failure with the same input.
func (s *State) Backoff(input string, now time.Time) time.Duration {
	if !s.FailedWith(input) || s.Demanded {
		return 0
	}
	return max(s.retryAt.Sub(now), 0)
}

// RetryBy has the next attempt after a failed run be made at a time if it is not made before.
func (s *State) RetryBy(at time.Time) {
	if s.retryAt.After(at) {
		s.retryAt = at
	}
}

// RetryNow has the pause after failures begin again, because what was missing came. A kind is announced a moment before
// it is served, so the first attempt may come too early.
func (s *State) RetryNow(now time.Time) {
	if s.failures > 0 {
		s.retryAt, s.failures = now, 1
	}
}

// PutOff notes that there was no memory for a bundle, and returns the pause before the next try, which is random, so
// that not all are tried at once.
func (s *State) PutOff(n bundle.Need) time.Duration {
	pause := doubled(putOffFirst, putOffLast, s.putOffs)
	s.Needs = n
	s.putOffs++
	return pause/2 + rand.N(pause)
}

// Admitted notes that there was memory for a bundle.
func (s *State) Admitted() { s.Needs, s.putOffs = bundle.Need{}, 0 }

// AppliedAll notes that everything was applied, right or not.
func (s *State) AppliedAll(now time.Time) { s.appliedAt, s.turns = now, 0 }

// Keep notes what the Secrets held that were read for an input; nil if that is not kept.
func (s *State) Keep(input string, content *bundle.Kept) { s.content, s.contentInput = content, input }

// Kept returns what was noted by Keep for an input, nil if it was for another one, or nothing was.
func (s *State) Kept(input string) *bundle.Kept {
	if s.contentInput != input {
		return nil
	}
	return s.content
}

// ApplyDue reports whether everything was applied longer ago than a period, give or take the jitter of the timer. What
// was applied before the start counts as applied then.
func (s *State) ApplyDue(now time.Time, period time.Duration) bool {
	if s.appliedAt.IsZero() {
		s.appliedAt = now
	}
	return now.Sub(s.appliedAt) >= period*8/10
}

// Waited is how long ago this was asked first since the last success.
func (s *State) Waited(now time.Time) time.Duration {
	if s.waitsSince.IsZero() {
		s.waitsSince = now
	}
	return now.Sub(s.waitsSince)
}

// BlindFor returns for how long some watch has shown nothing. blind is whether one shows nothing now.
func (s *State) BlindFor(blind bool, now time.Time) time.Duration {
	switch {
	case !blind:
		s.blindSince = time.Time{}
	case s.blindSince.IsZero():
		s.blindSince = now
	default:
		return now.Sub(s.blindSince)
	}
	return 0
}

// Yield notes which objects are left to which other ManagedResources, instead of what was noted before.
func (s *State) Yield(yields map[inventory.Key]types.NamespacedName) {
	s.Yields = yields
	maps.DeleteFunc(s.absent, func(key inventory.Key, _ time.Time) bool { _, yielded := yields[key]; return !yielded })
}

// ownerGrace is how long the owner of a shared object has to bring it back before another one that lists it does.
const ownerGrace = 10 * time.Second

// LeaveTo returns how long the owner of an object that is gone may still take to bring it back.
func (s *State) LeaveTo(key inventory.Key, now time.Time) time.Duration {
	if _, known := s.absent[key]; !known {
		if s.absent == nil {
			s.absent = map[inventory.Key]time.Time{}
		}
		s.absent[key] = now
	}
	return s.Left(key, now)
}

// Left is how much longer an object that is gone is left to its owner, if LeaveTo said so; zero if it is not.
func (s *State) Left(key inventory.Key, now time.Time) time.Duration {
	since, known := s.absent[key]
	if !known {
		return 0
	}
	return max(since.Add(ownerGrace).Sub(now), 0)
}

// MayCorrect returns how long the correction of an object has to wait.
func (s *State) MayCorrect(key inventory.Key, now time.Time) time.Duration {
	c := s.corrections[key]
	if c == nil {
		return 0
	}
	return max(c.next.Sub(now), 0)
}

// Corrected notes a correction.
func (s *State) Corrected(key inventory.Key, now time.Time) {
	s.forgetQuiet(now)
	if s.corrections == nil {
		s.corrections = map[inventory.Key]*corrections{}
	}
	c := s.corrections[key]
	if c == nil {
		c = &corrections{}
		s.corrections[key] = c
	}
	c.count++
	c.last, c.next = now, now
	if over := c.count - driftFree; over >= 0 {
		c.next = now.Add(doubled(DriftFirst, driftLast, over))
	}
}

// Undisturbed notes that the last look at an object, which Corrected has counted, found nothing wrong.
func (s *State) Undisturbed(key inventory.Key, now time.Time) {
	c := s.corrections[key]
	if c == nil {
		return
	}
	c.count--
	c.looks++
	c.next = now
	if over := c.looks - driftFree; over >= 0 {
		c.next = now.Add(doubled(DriftFirst, lookLast, over))
	}
}

// forgetQuiet lets go of corrections that count for nothing any longer: neither slow down others of their object, nor
// are a fight over it. Otherwise a user who edits every object of a fleet once would leave a record for each.
func (s *State) forgetQuiet(now time.Time) {
	maps.DeleteFunc(s.corrections, func(_ inventory.Key, c *corrections) bool { return now.Sub(c.last) > driftMemory })
	maps.DeleteFunc(s.fights, func(_ inventory.Key, f *fight) bool {
		f.times = slices.DeleteFunc(f.times, func(at time.Time) bool { return now.Sub(at) >= fightWindow })
		return len(f.times) == 0
	})
	if len(s.corrections) == 0 {
		s.corrections = nil
	}
	if len(s.fights) == 0 {
		s.fights = nil
	}
}

// doubled is a pause after a number of times: the first one, doubled each time, up to the last one.
func doubled(first, last time.Duration, times int) time.Duration {
	if times > 20 {
		return last
	}
	return min(first<<times, last)
}
