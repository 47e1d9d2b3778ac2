package managedresource

import (
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/controllers/internal/crowd"
	"github.com/trellis-hub/trellis/controllers/managedresource/observe/conditions"
	"github.com/trellis-hub/trellis/engine/bundle"
	"github.com/trellis-hub/trellis/engine/inventory"
)

// sourceRetryLast is the longest pause after the source did not take a write.
const sourceRetryLast = 15 * time.Second

// Pauses between attempts. A whole run that failed is tried again after 1 s, doubled up to 5 min. An object whose drift
// comes back is corrected at once for a few times, then after 1 s, doubled up to 1 min, until it was quiet for 10
// min. One that is looked at again and again although nothing is wrong waits for 2 s at most: the next change may be
// drift.
// A run that finds no room for its bundle is tried again after about a second, doubled up to 8 s.
const (
	retryFirst = time.Second
	retryLast  = 5 * time.Minute

	putOffFirst = time.Second
	putOffLast  = 8 * time.Second

	driftFree   = 5
	driftFirst  = time.Second
	driftLast   = time.Minute
	driftMemory = 10 * time.Minute
	lookLast    = 2 * time.Second
)

// memory is what a reconciler remembers of ManagedResources between runs. All of it may be lost.
type memory struct {
	mu    sync.Mutex
	each  map[types.NamespacedName]*remembered
	crowd *crowd.Crowd // of those that say that their targets are away
}

type remembered struct {
	since    time.Time // first seen without knowledge of its objects; zero once known
	demanded bool      // an apply is asked for, whether or not anything changed
	cut      bool      // a run that had something to do ended because its target went

	blindSince time.Time // some watch showed nothing; zero if all do
	healthAt   time.Time // the conditions of health were written last, alone
	turnedAt   time.Time // one of them turned last, written or not
	turns      int       // how many writes came with a turn, without a quiet moment

	appliedAt time.Time // everything, right or not; zero if not since the start

	awaited     map[inventory.Key]bool // objects that have to go before the next run can succeed
	failedInput string
	failures    int
	retryAt     time.Time

	rewinds int64 // of the target, as of the last run

	noAnswer bool // to some call of the last run

	lacks   bool                    // something that others may bring
	lacksIn clustercache.ClusterKey // the target that it is missing in

	corrections map[inventory.Key]*corrections
	fights      map[inventory.Key]*fight

	last   *conditions.Condition                  // the result of the last run of everything
	yields map[inventory.Key]types.NamespacedName // objects that were left to another ManagedResource
	absent map[inventory.Key]time.Time            // since when such an object is gone
	input  string                                 // what was applied as far as it is ours to apply; empty if not all of it was

	content      *bundle.Kept // of its Secrets as they were when it was read last; nil if that is not kept
	contentInput string       // that it belongs to

	needs   bundle.Need // the room that the last run lacked; zero if it was not put off
	putOffs int         // how many runs in a row were put off

	noteDue time.Time // when the annotation that everything was applied is to be written; zero if it is

	target clustercache.ClusterKey   // of the last dry run
	dryRun *hubv1alpha1.DryRunReport // nil without one
}

type corrections struct {
	count int
	looks int // that found nothing wrong
	last  time.Time
	next  time.Time
}

func newMemory() *memory {
	return &memory{each: map[types.NamespacedName]*remembered{}, crowd: crowd.New(crowdPace)}
}

func (m *memory) with(name types.NamespacedName, f func(*remembered)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.each[name]
	if e == nil {
		e = &remembered{}
		m.each[name] = e
	}
	f(e)
}

func (m *memory) forget(name types.NamespacedName) {
	m.crowd.Forget(name)
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.each, name)
}

// rewound tells whether the target of a ManagedResource went back in time since this was asked last.
func (m *memory) rewound(name types.NamespacedName, rewinds int64) (yes bool) {
	m.with(name, func(e *remembered) { yes, e.rewinds = e.rewinds != rewinds, rewinds })
	return yes
}

// waited is how long it has been since this was asked first and not settled.
func (m *memory) waited(name types.NamespacedName, now time.Time) (d time.Duration) {
	m.with(name, func(e *remembered) {
		if e.since.IsZero() {
			e.since = now
		}
		d = now.Sub(e.since)
	})
	return d
}

// blindFor is how long some watch has not shown anything.
func (m *memory) blindFor(name types.NamespacedName, blind bool, now time.Time) (d time.Duration) {
	m.with(name, func(e *remembered) {
		switch {
		case !blind:
			e.blindSince = time.Time{}
		case e.blindSince.IsZero():
			e.blindSince = now
		default:
			d = now.Sub(e.blindSince)
		}
	})
	return d
}

// settled ends a wait and forgets failures: an input was applied.
func (m *memory) settled(name types.NamespacedName, input string) {
	m.with(name, func(e *remembered) {
		e.input = input
		e.since, e.demanded, e.cut, e.failures, e.failedInput, e.awaited = time.Time{}, false, false, 0, "", nil
		e.lacks = false
	})
}

// read notes what the Secrets held that were read for an input; nil if that is not kept.
func (m *memory) read(name types.NamespacedName, input string, content *bundle.Kept) {
	m.with(name, func(e *remembered) { e.content, e.contentInput = content, input })
}

// content returns what was noted by read for an input, nil if it was for another one, or nothing was.
func (m *memory) content(name types.NamespacedName, input string) (content *bundle.Kept) {
	m.with(name, func(e *remembered) {
		if e.contentInput == input {
			content = e.content
		}
	})
	return content
}

// need returns how much room for a bundle the last run lacked; zero if it lacked none.
func (m *memory) need(name types.NamespacedName) (n bundle.Need) {
	m.with(name, func(e *remembered) { n = e.needs })
	return n
}

// putOff notes that there was no room for a bundle, and returns the pause before the next try, which is random, so that
// not all are tried at once.
func (m *memory) putOff(name types.NamespacedName, n bundle.Need) (pause time.Duration) {
	m.with(name, func(e *remembered) {
		pause = doubled(putOffFirst, putOffLast, e.putOffs)
		e.needs = n
		e.putOffs++
	})
	return pause/2 + rand.N(pause)
}

// hadRoom notes that there was room for a bundle.
func (m *memory) hadRoom(name types.NamespacedName) {
	m.with(name, func(e *remembered) { e.needs, e.putOffs = bundle.Need{}, 0 })
}

// note sets when the annotation that everything was applied is to be written; zero for not at all.
func (m *memory) note(name types.NamespacedName, due time.Time) {
	m.with(name, func(e *remembered) { e.noteDue = due })
}

// noteDue returns what was set by note.
func (m *memory) noteDue(name types.NamespacedName) (due time.Time) {
	m.with(name, func(e *remembered) { due = e.noteDue })
	return due
}

// applyDue tells whether everything was applied longer ago than a period, give or take the jitter of the timer. What was
// applied before the start counts as applied then.
func (m *memory) applyDue(name types.NamespacedName, now time.Time, period time.Duration) (due bool) {
	m.with(name, func(e *remembered) {
		if e.appliedAt.IsZero() {
			e.appliedAt = now
		}
		due = now.Sub(e.appliedAt) >= period*8/10
	})
	return due
}

// appliedAll notes that everything was applied just now.
func (m *memory) appliedAll(name types.NamespacedName, now time.Time) {
	m.with(name, func(e *remembered) { e.appliedAt, e.turns = now, 0 })
}

func (m *memory) demandApply(name types.NamespacedName) {
	m.with(name, func(e *remembered) { e.demanded = true })
}

func (m *memory) applyDemanded(name types.NamespacedName) (yes bool) {
	m.with(name, func(e *remembered) { yes = e.demanded })
	return yes
}

// cutOff notes that a run which had something to do ended because its target went.
func (m *memory) cutOff(name types.NamespacedName) {
	m.with(name, func(e *remembered) { e.cut = true })
}

// takePending tells whether there is something to do as soon as the target can be asked. It can now, and a run follows, so that a run was cut
// off is told once.
func (m *memory) takePending(name types.NamespacedName) (yes bool) {
	m.with(name, func(e *remembered) { yes, e.cut = e.demanded || e.cut, false })
	return yes
}

// failed notes a failed run and returns the pause before the next one. Another input starts anew. A run that an event brought
// before its time does not make the pause longer: objects that go one by one would make it minutes.
func (m *memory) failed(name types.NamespacedName, input string, now time.Time) (pause time.Duration) {
	m.with(name, func(e *remembered) {
		if e.failedInput != input {
			e.failedInput, e.failures = input, 0
		}
		e.input, e.demanded, e.cut = "", false, false
		if e.failures == 0 || !now.Before(e.retryAt) {
			e.retryAt = now.Add(doubled(retryFirst, retryLast, e.failures))
			e.failures++
		}
		pause = e.retryAt.Sub(now)
	})
	return pause
}

// failedWith tells whether the last run failed with an input.
func (m *memory) failedWith(name types.NamespacedName, input string) (yes bool) {
	m.with(name, func(e *remembered) { yes = e.failures > 0 && e.failedInput == input })
	return yes
}

// retryBy has the next attempt after a failed run be made at a time if it is not made before.
func (m *memory) retryBy(name types.NamespacedName, at time.Time) {
	m.with(name, func(e *remembered) {
		if e.retryAt.After(at) {
			e.retryAt = at
		}
	})
}

// unanswered notes that calls of a run got no answer, and tells whether it is the first such run.
func (m *memory) unanswered(name types.NamespacedName) (first bool) {
	m.with(name, func(e *remembered) { first, e.noAnswer = !e.noAnswer, true })
	return first
}

// answered ends what unanswered began.
func (m *memory) answered(name types.NamespacedName) {
	m.with(name, func(e *remembered) { e.noAnswer = false })
}

// await notes what the next run waits for.
func (m *memory) await(name types.NamespacedName, keys map[inventory.Key]bool) {
	m.with(name, func(e *remembered) { e.awaited = keys })
}

// waitsFor tells of an object whether the next run waits for it to go.
func (m *memory) waitsFor(name types.NamespacedName) func(inventory.Key) bool {
	var awaited map[inventory.Key]bool
	m.with(name, func(e *remembered) { awaited = e.awaited })
	return func(k inventory.Key) bool { return awaited[k] }
}

// backoff is the rest of the pause after a failure with the same input.
func (m *memory) backoff(name types.NamespacedName, input string, now time.Time) (rest time.Duration) {
	m.with(name, func(e *remembered) {
		if e.failures > 0 && e.failedInput == input && !e.demanded {
			rest = e.retryAt.Sub(now)
		}
	})
	return max(rest, 0)
}

// appliedHere tells whether an input was applied since the start.
func (m *memory) appliedHere(name types.NamespacedName, input string) (yes bool) {
	m.with(name, func(e *remembered) { yes = e.input != "" && e.input == input })
	return yes
}

// concluded notes the result of a run and returns that of the run before, nil if there was none.
func (m *memory) concluded(name types.NamespacedName, c conditions.Condition) (before *conditions.Condition) {
	m.with(name, func(e *remembered) { before, e.last = e.last, &c })
	return before
}

// yield notes which objects are left to which other ManagedResources, instead of what was noted before.
func (m *memory) yield(name types.NamespacedName, yields map[inventory.Key]types.NamespacedName) {
	m.with(name, func(e *remembered) {
		e.yields = yields
		maps.DeleteFunc(e.absent, func(key inventory.Key, _ time.Time) bool { _, yielded := yields[key]; return !yielded })
	})
}

// leaveTo returns how long the owner of an object that is gone may still take to bring it back.
func (m *memory) leaveTo(name types.NamespacedName, key inventory.Key, now time.Time) (left time.Duration) {
	m.with(name, func(e *remembered) {
		since, known := e.absent[key]
		if !known {
			if e.absent == nil {
				e.absent = map[inventory.Key]time.Time{}
			}
			since, e.absent[key] = now, now
		}
		left = since.Add(ownerGrace).Sub(now)
	})
	return max(left, 0)
}

// left is how much longer an object that is gone is left to its owner, if leaveTo said so; zero if it is not.
func (m *memory) left(name types.NamespacedName, key inventory.Key, now time.Time) (left time.Duration) {
	m.with(name, func(e *remembered) {
		if since, known := e.absent[key]; known {
			left = since.Add(ownerGrace).Sub(now)
		}
	})
	return max(left, 0)
}

// yields returns a copy of what was noted by yield.
func (m *memory) yields(name types.NamespacedName) (yields map[inventory.Key]types.NamespacedName) {
	m.with(name, func(e *remembered) { yields = maps.Clone(e.yields) })
	return yields
}

// mayCorrect returns how long the correction of an object has to wait.
func (m *memory) mayCorrect(name types.NamespacedName, key inventory.Key, now time.Time) (wait time.Duration) {
	m.with(name, func(e *remembered) {
		if c := e.corrections[key]; c != nil {
			wait = c.next.Sub(now)
		}
	})
	return max(wait, 0)
}

// forgetQuiet lets go of corrections that count for nothing any more: neither slow down others of their object, nor are a fight over it. Somebody
// may edit every object of a fleet once, and never again.
func (e *remembered) forgetQuiet(now time.Time) {
	maps.DeleteFunc(e.corrections, func(_ inventory.Key, c *corrections) bool { return now.Sub(c.last) > driftMemory })
	maps.DeleteFunc(e.fights, func(_ inventory.Key, f *fight) bool {
		f.times = slices.DeleteFunc(f.times, func(at time.Time) bool { return now.Sub(at) >= fightWindow })
		return len(f.times) == 0
	})
	if len(e.corrections) == 0 {
		e.corrections = nil
	}
	if len(e.fights) == 0 {
		e.fights = nil
	}
}

// corrected notes a correction.
func (m *memory) corrected(name types.NamespacedName, key inventory.Key, now time.Time) {
	m.with(name, func(e *remembered) {
		e.forgetQuiet(now)
		if e.corrections == nil {
			e.corrections = map[inventory.Key]*corrections{}
		}
		c := e.corrections[key]
		if c == nil {
			c = &corrections{}
			e.corrections[key] = c
		}
		c.count++
		c.last, c.next = now, now
		if over := c.count - driftFree; over >= 0 {
			c.next = now.Add(doubled(driftFirst, driftLast, over))
		}
	})
}

// undisturbed notes that the last look at an object, which corrected has counted, found nothing wrong.
func (m *memory) undisturbed(name types.NamespacedName, key inventory.Key, now time.Time) {
	m.with(name, func(e *remembered) {
		c := e.corrections[key]
		if c == nil {
			return
		}
		c.count--
		c.looks++
		c.next = now
		if over := c.looks - driftFree; over >= 0 {
			c.next = now.Add(doubled(driftFirst, lookLast, over))
		}
	})
}

// lack notes whether something is missing in a target that others may bring: a kind, or a namespace.
func (m *memory) lack(name types.NamespacedName, target clustercache.ClusterKey, lacks bool) {
	m.with(name, func(e *remembered) { e.lacks, e.lacksIn = lacks, target })
}

// lacking returns the ManagedResources that lack something in a target. Their pauses begin anew: a kind is announced a
// moment before it is served.
func (m *memory) lacking(target clustercache.ClusterKey, now time.Time) (names []types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, e := range m.each {
		if e.lacks && e.lacksIn == target && e.failures > 0 {
			e.retryAt, e.failures = now, 1
			names = append(names, name)
		}
	}
	return names
}

func doubled(first, last time.Duration, times int) time.Duration {
	if times > 20 {
		return last
	}
	return min(first<<times, last)
}
