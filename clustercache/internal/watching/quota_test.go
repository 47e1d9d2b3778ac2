package watching

import (
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// A list that does not fit is not kept, and says nothing. Others are not concerned, and it is tried again, less and
// less often.
func TestListThatDoesNotFit(t *testing.T) {
	s := newSetting(t, 10)
	small, large := newSite(t, 3), newSite(t, 1000)
	w, _ := s.watch("small", small)
	s.g.Eventually(state(w)).Should(Equal([2]any{true, 3}))

	tooLarge, recorded := s.watch("large", large)
	s.g.Eventually(s.quota.Refused).Should(Equal("there are more than 10 objects; not all are known of: large"))
	s.g.Eventually(s.taken).Should(Equal(3))
	s.g.Eventually(func() []error { _, errs, _ := recorded.calls(); return errs }).
		Should(HaveExactElements(MatchError(ErrTooMany)))
	_, _, synced := recorded.calls()
	s.g.Expect(synced).To(BeZero())
	s.g.Expect(state(tooLarge)()).To(Equal([2]any{false, 0}))

	pause := watchRetryMin
	for lists := range int32(15) {
		s.g.Eventually(large.lists.Load).Should(Equal(lists + 1))
		s.g.Eventually(s.pauses).Should(BeTrue())
		s.clock.Step(pause - time.Nanosecond)
		s.g.Expect(s.pauses()).To(BeTrue(), "the pause is not over")
		if lists == 14 {
			s.g.Expect(pause).To(Equal(fullRetry))
			large.objects.Store(7)
		}
		s.clock.Step(pause)
		pause = min(2*pause, fullRetry)
	}
	s.g.Eventually(state(tooLarge)).Should(Equal([2]any{true, 7}))
	s.g.Eventually(s.quota.Refused).Should(BeEmpty())
	s.g.Eventually(s.changes.Load).Should(BeEquivalentTo(2))
	s.g.Expect(s.taken()).To(Equal(10))
	s.g.Expect(state(w)()).To(Equal([2]any{true, 3}), "nothing happened to it")
}

// A kind that fills the quota by and by is the one that goes when another has a new object.
func TestWatchThatFillsTheQuotaIsEvicted(t *testing.T) {
	s := newSetting(t, 10)
	filling, small := newSite(t, 1), newSite(t, 2)
	large, recorded := s.watch("filling", filling)
	s.g.Eventually(state(large)).Should(Equal([2]any{true, 1}))
	w, others := s.watch("small", small)
	s.g.Eventually(state(w)).Should(Equal([2]any{true, 2}))
	for i := 1; i < 9; i++ {
		filling.events <- is(i)
	}
	s.g.Eventually(s.quota.Refused).Should(ContainSubstring("filling"), "the ninth does not fit")
	s.g.Eventually(s.pauses).Should(BeTrue())
	s.g.Expect(state(large)()).To(Equal([2]any{false, 8}), "what is known stays as long as there is quota")
	filling.objects.Store(1000)

	small.events <- is(2)
	s.g.Eventually(state(w)).Should(Equal([2]any{true, 3}))
	third, _ := s.watch("third", newSite(t, 1))
	s.g.Eventually(state(third)).Should(Equal([2]any{true, 1}))
	s.g.Expect(state(large)()).To(Equal([2]any{false, 0}))
	deleted, errs, _ := recorded.calls()
	s.g.Expect(deleted).To(BeEmpty())
	s.g.Expect(errs).To(HaveExactElements(MatchError(ErrTooMany)))
	for lists := range int32(5) {
		s.stepUntil(filling, lists+2)
		s.g.Eventually(s.pauses).Should(BeTrue())
	}
	s.g.Expect(s.quota.Refused()).To(HaveSuffix(": filling"))
	_, errs, _ = others.calls()
	s.g.Expect(errs).To(BeEmpty(), "the others are not interrupted")
	s.g.Expect(small.lists.Load()).To(BeEquivalentTo(1))

	filling.objects.Store(4)
	s.stepUntil(filling, 7)
	s.g.Eventually(state(large)).Should(Equal([2]any{true, 4}))
	s.g.Eventually(s.quota.Refused).Should(BeEmpty())
}

// One that is synced, and open, is evicted like any other: it says so, and nothing counts as deleted.
func TestSyncedWatchIsOusted(t *testing.T) {
	s := newSetting(t, 5)
	of := newSite(t, 5)
	large, recorded := s.watch("large", of)
	s.g.Eventually(state(large)).Should(Equal([2]any{true, 5}))
	small, _ := s.watch("small", newSite(t, 2))
	s.g.Eventually(state(small)).Should(Equal([2]any{true, 2}))
	s.g.Eventually(func() []error { _, errs, _ := recorded.calls(); return errs }).
		Should(HaveExactElements(MatchError(ErrTooMany)))
	s.g.Eventually(state(large)).Should(Equal([2]any{false, 0}))
	s.g.Expect(s.quota.Refused()).To(HaveSuffix(": large"))
	s.g.Eventually(s.pauses).Should(BeTrue())
	of.objects.Store(3)
	s.stepUntil(of, 2)
	s.g.Eventually(state(large)).Should(Equal([2]any{true, 3}))
	s.g.Eventually(func() int { _, _, synced := recorded.calls(); return synced }).Should(Equal(2))
	deleted, _, _ := recorded.calls()
	s.g.Expect(deleted).To(BeEmpty())
}

// One that was evicted while it waited for its next attempt begins with a list, and its handler is notified first.
func TestWatchIsOustedBetweenAttempts(t *testing.T) {
	s := newSetting(t, 5)
	of := newSite(t, 5)
	large, recorded := s.watch("large", of)
	s.g.Eventually(state(large)).Should(Equal([2]any{true, 5}))
	of.events <- expired
	s.g.Eventually(s.pauses).Should(BeTrue())
	small, _ := s.watch("small", newSite(t, 1))
	s.g.Eventually(state(small)).Should(Equal([2]any{true, 1}))
	s.g.Expect(state(large)()).To(Equal([2]any{false, 0}))
	of.objects.Store(4)
	s.stepUntil(of, 2)
	s.g.Eventually(state(large)).Should(Equal([2]any{true, 4}))
	_, errs, _ := recorded.calls()
	s.g.Expect(errs).To(HaveExactElements(MatchError(ErrTooMany)))
}

// Two that do not fit together do not evict each other in turn.
func TestWatchesThatDoNotFitTogether(t *testing.T) {
	for name, c := range map[string]struct{ first, second int32 }{
		"of one size":                      {6, 6},
		"the second is larger":             {4, 9},
		"the second is smaller":            {9, 5},
		"the first goes for the second":    {10, 8},
		"the second fits nowhere":          {6, 1000},
		"the second, after the first, too": {10, 1000},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSetting(t, 10)
			sites := []*site{newSite(t, c.first), newSite(t, c.second)}
			first, _ := s.watch("first", sites[0])
			s.g.Eventually(state(first)).Should(Equal([2]any{true, int(c.first)}))
			second, _ := s.watch("second", sites[1])
			var lists []int32
			for range 10 {
				s.g.Eventually(s.pauses).Should(BeTrue())
				s.clock.Step(2 * fullRetry)
			}
			s.g.Eventually(func() bool { return s.pauses() && (first.Synced() || second.Synced()) }).Should(BeTrue())
			for _, of := range sites {
				lists = append(lists, of.lists.Load())
			}
			s.g.Expect(min(lists[0], lists[1])).To(BeNumerically("<=", 5), "one of them is left alone: %v", lists)
		})
	}
}

// What a watch knows stays when there is no quota for more, and nothing counts as deleted.
func TestEventThatDoesNotFit(t *testing.T) {
	s := newSetting(t, 5)
	of := newSite(t, 5)
	w, recorded := s.watch("full", of)
	s.g.Eventually(state(w)).Should(Equal([2]any{true, 5}))

	of.objects.Store(6)
	of.events <- `{"type":"MODIFIED","object":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"object-0","resourceVersion":"101"}}}`
	of.events <- `{"type":"ADDED","object":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"object-5","resourceVersion":"102"}}}`
	s.g.Eventually(s.quota.Refused).Should(ContainSubstring("full"))
	s.g.Eventually(state(w)).Should(Equal([2]any{false, 5}))
	s.g.Eventually(func() []error { _, errs, _ := recorded.calls(); return errs }).
		Should(HaveExactElements(MatchError(ErrTooMany)))
	deleted := func() []string { deleted, _, _ := recorded.calls(); return deleted }
	s.g.Expect(deleted()).To(BeEmpty())

	of.objects.Store(4)
	s.stepUntil(of, 2)
	s.g.Eventually(state(w)).Should(Equal([2]any{true, 4}))
	s.g.Eventually(deleted).Should(Equal([]string{"object-4"}), "now it is known")
	s.g.Eventually(s.quota.Refused).Should(BeEmpty())
	s.g.Expect(s.taken()).To(Equal(4))
}

// A list that is taken again counts once with the one that it replaces.
func TestListThatIsTakenAnewFits(t *testing.T) {
	s := newSetting(t, 5)
	of := newSite(t, 5)
	w, _ := s.watch("full", of)
	s.g.Eventually(state(w)).Should(Equal([2]any{true, 5}))
	of.events <- expired
	s.stepUntil(of, 2)
	s.g.Eventually(state(w)).Should(Equal([2]any{true, 5}))
	s.g.Expect(s.changes.Load()).To(BeZero())
}

// A watch that waits for quota does not wait for long when there is some: neither when a watch is closed, nor
// when objects are deleted.
func TestQuotaThatIsGivenBack(t *testing.T) {
	for name, give := range map[string]func(first *Stream, of *site){
		"by a watch that goes": func(first *Stream, _ *site) { first.Close() },
		"by objects that go": func(_ *Stream, of *site) {
			for i := range 4 {
				of.events <- strings.Replace(is(i), "ADDED", "DELETED", 1)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSetting(t, 5)
			of := newSite(t, 4)
			first, _ := s.watch("first", of)
			s.g.Eventually(state(first)).Should(Equal([2]any{true, 4}))
			second, _ := s.watch("second", newSite(t, 3))
			s.g.Eventually(s.quota.Refused).Should(ContainSubstring("second"))
			s.g.Eventually(s.pauses).Should(BeTrue())
			give(first, of)
			s.g.Eventually(state(second)).Should(Equal([2]any{true, 3}), "the clock stands still")
			s.g.Eventually(s.quota.Refused).Should(BeEmpty())
		})
	}
}

// One that would need more than there is, or than is given back, is not asked for each time that something goes.
func TestQuotaThatIsNotEnough(t *testing.T) {
	g := NewWithT(t)
	r := NewQuota(Size{Objects: 100}, nil, func() {})
	fits, waits := NewStream(t.Context(), Spec{Quota: r}), NewStream(t.Context(), Spec{Quota: r})
	g.Expect(r.reserve(fits, Size{Objects: 60})).To(BeTrue())
	g.Expect(r.reserve(waits, Size{Objects: 40})).To(BeTrue())
	g.Expect(r.reserve(waits, Size{Objects: 41})).To(BeFalse())
	freed := r.announce(waits)
	r.keep(waits, Size{Objects: 0})
	for _, c := range []struct {
		others int
		wakes  bool
	}{{50, false}, {40, false}, {39, true}, {38, true}} {
		r.keep(fits, Size{Objects: c.others})
		r.wake()
		if c.wakes {
			g.Expect(freed).To(Receive())
		}
		g.Expect(freed).NotTo(Receive())
	}
	g.Expect(r.reserve(waits, Size{Objects: 62})).To(BeTrue())
	g.Expect(r.reserve(waits, Size{Objects: 63})).To(BeFalse())
	r.keep(waits, Size{Objects: 0})
	r.wake()
	g.Expect(freed).NotTo(Receive(), "it came that far")
	fits.Close()
	g.Expect(freed).To(Receive())
	g.Expect(r.reserve(waits, Size{Objects: 101})).To(BeFalse())
	r.keep(waits, Size{Objects: 0})
	r.wake()
	g.Expect(freed).NotTo(Receive(), "it does not fit into all there is")
}

// The first objects of a list that is taken again give nothing back: what it replaces is still there.
func TestShorterListNeedsNoQuota(t *testing.T) {
	g := NewWithT(t)
	r := NewQuota(Size{Objects: 5}, nil, func() {})
	w, other := NewStream(t.Context(), Spec{Quota: r}), NewStream(t.Context(), Spec{Quota: r})
	g.Expect(r.reserve(w, Size{Objects: 3})).To(BeTrue())
	g.Expect(r.reserve(w, Size{Objects: 1})).To(BeTrue())
	g.Expect(r.reserve(other, Size{Objects: 3})).To(BeFalse())
	w.Close()
	g.Expect(r.reserve(w, Size{Objects: 1})).To(BeFalse(), "it has ended")
	g.Expect(r.reserve(other, Size{Objects: 5})).To(BeTrue())
}

// What is refused because the watch has ended is not refused for want of quota, and nothing is left of a watch that has
// ended.
func TestWatchThatHasEndedIsNotRefused(t *testing.T) {
	g := NewWithT(t)
	changed := 0
	r := NewQuota(Size{Objects: 5}, nil, func() { changed++ })
	w := NewStream(t.Context(), Spec{Name: "ended", Quota: r})
	g.Expect(r.reserve(w, Size{Objects: 6})).To(BeFalse())
	r.announce(w)
	g.Expect(r.Refused()).To(ContainSubstring("ended"))
	w.Close()
	g.Expect(r.Refused()).To(BeEmpty())
	g.Expect(r.reserve(w, Size{Objects: 6})).To(BeFalse())
	g.Expect(r.announce(w)).To(BeNil())
	g.Expect(r.Refused()).To(BeEmpty())
	g.Expect(changed).To(Equal(2))
}

func TestRefusedShowsAFewNames(t *testing.T) {
	g := NewWithT(t)
	r := NewQuota(Size{Objects: 1}, nil, func() {})
	g.Expect(r.Refused()).To(BeEmpty())
	for i := range 8 {
		g.Expect(r.reserve(NewStream(t.Context(), Spec{Name: fmt.Sprint("kind-", i)}), Size{Objects: 2})).To(BeFalse())
	}
	g.Expect(r.Refused()).To(HaveSuffix(strings.Join([]string{"kind-0", "kind-1", "kind-2", "kind-3", "kind-4"}, ", ") + " and 3 more"))
}
