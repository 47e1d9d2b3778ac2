package run

import (
	"maps"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"

	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/engine/inventory"
)

func TestPausesAfterFailuresDoubleUpToFiveMinutes(t *testing.T) {
	g := NewWithT(t)
	s := &State{}
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for i, seconds := range []int{1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300} {
		pause := time.Duration(seconds) * time.Second
		g.Expect(s.Failed("input", now)).To(Equal(pause), "failure %d", i)
		g.Expect(s.Backoff("input", now)).To(Equal(pause), "nothing is applied before")
		now = now.Add(pause)
		g.Expect(s.Backoff("input", now)).To(BeZero(), "and then it is")
	}
	for range 100 { // no overflow makes it short, or none at all
		now = now.Add(s.Failed("input", now))
	}
	g.Expect(s.Failed("input", now)).To(Equal(5 * time.Minute))

	g.Expect(s.Failed("another input", now)).To(
		Equal(time.Second), "what was changed is tried as if it were the first time")
	s.Succeeded("another input")
	g.Expect(s.Failed("another input", now)).To(Equal(time.Second), "and so is what worked meanwhile")
}

func TestFailureBeforeItsTimeMakesThePauseNoLonger(t *testing.T) {
	g := NewWithT(t)
	s := &State{}
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	now = now.Add(s.Failed("input", now))
	g.Expect(s.Failed("input", now)).To(Equal(2 * time.Second))
	for range 10 {
		now = now.Add(100 * time.Millisecond)
		s.Failed("input", now)
	}
	g.Expect(s.Backoff("input", now)).To(Equal(time.Second), "the rest of the pause that began with the second failure")
}

func TestCorrectionsCountForTenMinutes(t *testing.T) {
	g := NewWithT(t)
	s := &State{}
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	quick, slow, once := inventory.Key{Name: "quick"}, inventory.Key{Name: "slow"}, inventory.Key{Name: "once"}
	s.Fought(once, "", began)
	s.Corrected(once, began)
	now := began
	for i := range 40 {
		now = now.Add(time.Minute)
		s.Fought(quick, "other-client", now)
		if i%4 == 0 {
			s.Fought(slow, "", now)
		}
	}
	slowed := func() []inventory.Key { return slices.Collect(maps.Keys(s.corrections)) }
	s.Corrected(quick, now)
	g.Expect(slowed()).To(ConsistOf(quick))
	kept := func() map[inventory.Key]int {
		kept := map[inventory.Key]int{}
		for key, f := range s.fights {
			kept[key] = len(f.times)
			g.Expect(cap(f.times)).To(BeNumerically("<", 2*fightCorrections))
		}
		return kept
	}
	by, until := s.Contested(now)
	g.Expect(by).To(Equal(map[inventory.Key]string{quick: "other-client"}),
		"others are changed less than five times in ten minutes")
	g.Expect(until).To(Equal(now.Add(6*time.Minute)), "ten minutes after the fifth last one")
	g.Expect(kept()).To(Equal(map[inventory.Key]int{quick: fightCorrections, slow: 2}),
		"and what is too old to count is let go")

	by, _ = s.Contested(until)
	g.Expect(by).To(BeEmpty())
	s.Contested(now.Add(max(fightWindow, driftMemory) + 1))
	g.Expect(kept()).To(BeEmpty(), "a look is enough, without another correction")
	g.Expect(slowed()).To(BeEmpty(), "and so it is for what slows down others")
}

// What a ManagedResource lacks in its target may come by another one. It is tried at once then, and soon again if that
// was too early.
func TestWhatComesEndsThePausesOfThoseThatLackIt(t *testing.T) {
	g := NewWithT(t)
	var all Lacks
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	here := clustercache.ClusterKey{Namespace: "a", Name: "here"}
	elsewhere := clustercache.ClusterKey{Namespace: "a", Name: "elsewhere"}
	states := map[types.NamespacedName]*State{}
	fail := func(name string, target clustercache.ClusterKey, lacking bool) types.NamespacedName {
		n, s := types.NamespacedName{Namespace: "a", Name: name}, &State{}
		for range 8 {
			now = now.Add(s.Failed("input", now))
		}
		s.Failed("input", now)
		all.Set(n, target, lacking)
		states[n] = s
		return n
	}
	begin := func(n types.NamespacedName) *State { // a run
		if all.Take(n) {
			states[n].RetryNow(now)
		}
		return states[n]
	}
	waits := fail("waits", here, true)
	others := []types.NamespacedName{fail("another-target", elsewhere, true), fail("another-fault", here, false)}
	g.Expect(all.bring(here)).To(ConsistOf(waits))
	g.Expect(begin(waits).Backoff("input", now)).To(BeZero())
	for _, n := range others {
		g.Expect(begin(n).Backoff("input", now)).NotTo(BeZero(), n.Name)
	}
	g.Expect(begin(waits).Failed("input", now)).To(Equal(2*time.Second), "it is said once")

	states[waits].Succeeded("input")
	all.Set(waits, here, false)
	g.Expect(all.bring(here)).To(BeEmpty())
	all.Set(waits, here, true)
	all.bring(here)
	all.Forget(waits)
	g.Expect(all.Take(waits)).To(BeFalse())
	g.Expect(all.bring(here)).To(BeEmpty())
}

// The dispatcher asks whether something is left to do when a target is back. A run follows, so it is said once.
func TestInterruptedRunsAreSaidOnce(t *testing.T) {
	g := NewWithT(t)
	var all Interrupted
	name := types.NamespacedName{Namespace: "a", Name: "b"}
	g.Expect(all.Take(name)).To(BeFalse())
	all.Set(name, true)
	g.Expect(all.Take(name)).To(BeTrue())
	g.Expect(all.Take(name)).To(BeFalse())
	all.Set(name, true)
	all.Set(name, false)
	g.Expect(all.Take(name)).To(BeFalse())
}

// A state has no lock, because one worker at a time has it.
func TestAStateIsInOneHandAtATime(t *testing.T) {
	g := NewWithT(t)
	all, name := NewStates(), types.NamespacedName{Namespace: "a", Name: "b"}
	first, free := all.Take(name)
	g.Expect(free).To(BeTrue())
	_, free = all.Take(name)
	g.Expect(free).To(BeFalse())
	_, free = all.Take(types.NamespacedName{Namespace: "a", Name: "c"})
	g.Expect(free).To(BeTrue())
	first.Demanded = true
	all.Give(name, false)
	again, free := all.Take(name)
	g.Expect(free).To(BeTrue())
	g.Expect(again).To(BeIdenticalTo(first))
	again.Forget()
	all.Give(name, true)
	g.Expect(all.all).To(HaveLen(1), "nothing is kept of what is forgotten")
	fresh, _ := all.Take(name)
	g.Expect(fresh.Demanded).To(BeFalse())
}

// Looks that found nothing wrong do not slow down the correction of what is.
func TestLooksThatFoundNothingAreNoCorrections(t *testing.T) {
	g := NewWithT(t)
	s, key := &State{}, inventory.Key{Kind: "Plant", Name: "c"}
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for range 30 {
		now = now.Add(s.MayCorrect(key, now))
		s.Corrected(key, now)
		s.Undisturbed(key, now)
		g.Expect(s.MayCorrect(key, now)).To(BeNumerically("<=", lookLast))
	}
	g.Expect(s.MayCorrect(key, now)).To(Equal(lookLast), "but they get fewer")
	now = now.Add(lookLast)
	for range driftFree {
		g.Expect(s.MayCorrect(key, now)).To(BeZero())
		s.Corrected(key, now)
	}
}
