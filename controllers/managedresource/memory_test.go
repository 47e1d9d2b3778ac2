package managedresource

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
	m, name := newMemory(), types.NamespacedName{Namespace: "a", Name: "b"}
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for i, seconds := range []int{1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300} {
		pause := time.Duration(seconds) * time.Second
		g.Expect(m.failed(name, "input", now)).To(Equal(pause), "failure %d", i)
		g.Expect(m.backoff(name, "input", now)).To(Equal(pause), "nothing is applied before")
		now = now.Add(pause)
		g.Expect(m.backoff(name, "input", now)).To(BeZero(), "and then it is")
	}
	for range 100 { // no overflow makes it short, or none at all
		now = now.Add(m.failed(name, "input", now))
	}
	g.Expect(m.failed(name, "input", now)).To(Equal(5 * time.Minute))

	g.Expect(m.failed(name, "another input", now)).To(Equal(time.Second), "what was changed is tried as if it were the first time")
	m.settled(name, "another input")
	g.Expect(m.failed(name, "another input", now)).To(Equal(time.Second), "and so is what worked meanwhile")
}

func TestFailureBeforeItsTimeMakesThePauseNoLonger(t *testing.T) {
	g := NewWithT(t)
	m, name := newMemory(), types.NamespacedName{Namespace: "a", Name: "b"}
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	now = now.Add(m.failed(name, "input", now))
	g.Expect(m.failed(name, "input", now)).To(Equal(2 * time.Second))
	for range 10 {
		now = now.Add(100 * time.Millisecond)
		m.failed(name, "input", now)
	}
	g.Expect(m.backoff(name, "input", now)).To(Equal(time.Second), "the rest of the pause that began with the second failure")
}

func TestCorrectionsCountForTenMinutes(t *testing.T) {
	g := NewWithT(t)
	m, name := newMemory(), types.NamespacedName{Namespace: "a", Name: "b"}
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	quick, slow, once := inventory.Key{Name: "quick"}, inventory.Key{Name: "slow"}, inventory.Key{Name: "once"}
	m.fought(name, once, "", began)
	m.corrected(name, once, began)
	now := began
	for i := range 40 {
		now = now.Add(time.Minute)
		m.fought(name, quick, "somebody", now)
		if i%4 == 0 {
			m.fought(name, slow, "", now)
		}
	}
	slowed := func() (slowed []inventory.Key) {
		m.with(name, func(e *remembered) { slowed = slices.Collect(maps.Keys(e.corrections)) })
		return slowed
	}
	m.corrected(name, quick, now)
	g.Expect(slowed()).To(ConsistOf(quick))
	kept := func() (kept map[inventory.Key]int) {
		kept = map[inventory.Key]int{}
		m.with(name, func(e *remembered) {
			for key, f := range e.fights {
				kept[key] = len(f.times)
				g.Expect(cap(f.times)).To(BeNumerically("<", 2*fightCorrections))
			}
		})
		return kept
	}
	by, until := m.contested(name, now)
	g.Expect(by).To(Equal(map[inventory.Key]string{quick: "somebody"}), "others are changed less than five times in ten minutes")
	g.Expect(until).To(Equal(now.Add(6*time.Minute)), "ten minutes after the fifth last one")
	g.Expect(kept()).To(Equal(map[inventory.Key]int{quick: fightCorrections, slow: 2}), "and what is too old to count is let go")

	by, _ = m.contested(name, until)
	g.Expect(by).To(BeEmpty())
	m.contested(name, now.Add(max(fightWindow, driftMemory)+1))
	g.Expect(kept()).To(BeEmpty(), "a look is enough, without another correction")
	g.Expect(slowed()).To(BeEmpty(), "and so it is for what slows down others")
}

// What a ManagedResource lacks in its target may come by another one. It is tried at once then, and soon again if that
// was too early.
func TestWhatComesEndsThePausesOfThoseThatLackIt(t *testing.T) {
	g := NewWithT(t)
	m := newMemory()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	here, elsewhere := clustercache.ClusterKey{Namespace: "a", Name: "here"}, clustercache.ClusterKey{Namespace: "a", Name: "elsewhere"}
	fail := func(name string, target clustercache.ClusterKey, lacks bool) types.NamespacedName {
		n := types.NamespacedName{Namespace: "a", Name: name}
		for range 8 {
			now = now.Add(m.failed(n, "input", now))
		}
		m.failed(n, "input", now)
		m.lack(n, target, lacks)
		return n
	}
	waits := fail("waits", here, true)
	others := []types.NamespacedName{fail("another-target", elsewhere, true), fail("another-fault", here, false)}
	g.Expect(m.lacking(here, now)).To(ConsistOf(waits))
	g.Expect(m.backoff(waits, "input", now)).To(BeZero())
	for _, n := range others {
		g.Expect(m.backoff(n, "input", now)).NotTo(BeZero(), n.Name)
	}
	g.Expect(m.failed(waits, "input", now)).To(Equal(2 * time.Second))

	m.settled(waits, "input")
	g.Expect(m.lacking(here, now)).To(BeEmpty())
}

// Looks that found nothing wrong do not slow down the correction of what is.
func TestLooksThatFoundNothingAreNoCorrections(t *testing.T) {
	g := NewWithT(t)
	m, name, key := newMemory(), types.NamespacedName{Namespace: "a", Name: "b"}, inventory.Key{Kind: "Plant", Name: "c"}
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for range 30 {
		now = now.Add(m.mayCorrect(name, key, now))
		m.corrected(name, key, now)
		m.undisturbed(name, key, now)
		g.Expect(m.mayCorrect(name, key, now)).To(BeNumerically("<=", lookLast))
	}
	g.Expect(m.mayCorrect(name, key, now)).To(Equal(lookLast), "but they get fewer")
	now = now.Add(lookLast)
	for range driftFree {
		g.Expect(m.mayCorrect(name, key, now)).To(BeZero())
		m.corrected(name, key, now)
	}
}
