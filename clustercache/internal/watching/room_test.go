package watching

import (
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// A list that does not fit is not kept, and says nothing. Others are not concerned, and it is tried again, not often.
func TestListThatDoesNotFit(t *testing.T) {
	s := newSetting(t, 10)
	small, large := newSite(t, 3), newSite(t, 1000)
	w, _ := s.watch("small", small)
	s.g.Eventually(state(w)).Should(Equal([2]any{true, 3}))

	tooLarge, told := s.watch("large", large)
	s.g.Eventually(s.room.Refused).Should(Equal("there are more than 10 objects; not all are known of: large"))
	s.g.Eventually(s.taken).Should(Equal(3))
	_, errs, synced := told.told()
	s.g.Expect(errs).To(HaveExactElements(MatchError(ErrTooMany)))
	s.g.Expect(synced).To(BeZero())
	s.g.Expect(state(tooLarge)()).To(Equal([2]any{false, 0}))
	s.g.Expect(state(w)()).To(Equal([2]any{true, 3}))

	large.objects.Store(7)
	s.g.Eventually(s.clock.HasWaiters).Should(BeTrue())
	s.clock.Step(fullRetry - time.Second)
	s.g.Expect(s.clock.HasWaiters()).To(BeTrue(), "the pause is not over")
	s.g.Expect(large.lists.Load()).To(BeEquivalentTo(1))
	s.clock.Step(fullRetry)
	s.g.Eventually(state(tooLarge)).Should(Equal([2]any{true, 7}))
	s.g.Expect(s.room.Refused()).To(BeEmpty())
	s.g.Expect(s.told.Load()).To(BeEquivalentTo(2))
	s.g.Expect(s.taken()).To(Equal(10))
}

// What a watch knows stays when there is no room for more, and nothing counts as deleted.
func TestEventThatDoesNotFit(t *testing.T) {
	s := newSetting(t, 5)
	of := newSite(t, 5)
	w, told := s.watch("full", of)
	s.g.Eventually(state(w)).Should(Equal([2]any{true, 5}))

	of.objects.Store(6)
	of.events <- `{"type":"MODIFIED","object":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"object-0","resourceVersion":"101"}}}`
	of.events <- `{"type":"ADDED","object":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"object-5","resourceVersion":"102"}}}`
	s.g.Eventually(s.room.Refused).Should(ContainSubstring("full"))
	s.g.Expect(state(w)()).To(Equal([2]any{false, 5}))
	deleted, errs, _ := told.told()
	s.g.Expect(deleted).To(BeEmpty())
	s.g.Expect(errs).To(HaveExactElements(MatchError(ErrTooMany)))

	of.objects.Store(4)
	s.g.Eventually(s.clock.HasWaiters).Should(BeTrue())
	s.clock.Step(2 * fullRetry)
	s.g.Eventually(state(w)).Should(Equal([2]any{true, 4}))
	deleted, _, _ = told.told()
	s.g.Expect(deleted).To(Equal([]string{"object-4"}), "now it is known")
	s.g.Expect(s.room.Refused()).To(BeEmpty())
	s.g.Expect(s.taken()).To(Equal(4))
}

// A list that is taken anew counts once with the one that it replaces.
func TestListThatIsTakenAnewFits(t *testing.T) {
	s := newSetting(t, 5)
	of := newSite(t, 5)
	w, _ := s.watch("full", of)
	s.g.Eventually(state(w)).Should(Equal([2]any{true, 5}))
	of.events <- expired
	s.g.Eventually(func() int32 {
		if s.clock.HasWaiters() {
			s.clock.Step(time.Minute)
		}
		return of.lists.Load()
	}).Should(BeEquivalentTo(2))
	s.g.Eventually(state(w)).Should(Equal([2]any{true, 5}))
	s.g.Expect(s.told.Load()).To(BeZero())
}

func TestWatchThatGoesGivesItsRoomBack(t *testing.T) {
	s := newSetting(t, 5)
	first, _ := s.watch("first", newSite(t, 5))
	s.g.Eventually(state(first)).Should(Equal([2]any{true, 5}))
	second, _ := s.watch("second", newSite(t, 1))
	s.g.Eventually(s.room.Refused).Should(ContainSubstring("second"))
	first.Close()
	s.g.Expect(s.taken()).To(BeZero())
	s.g.Eventually(s.clock.HasWaiters).Should(BeTrue())
	s.clock.Step(2 * fullRetry)
	s.g.Eventually(state(second)).Should(Equal([2]any{true, 1}))
	s.g.Expect(s.room.Refused()).To(BeEmpty())
}

// The first objects of a list that is taken anew give nothing back: what it replaces is still there.
func TestShorterListNeedsNoRoom(t *testing.T) {
	g := NewWithT(t)
	r := NewRoom(5, func() {})
	w := Declare(t.Context(), Spec{Room: r})
	g.Expect(w.reserve(5)).To(BeTrue())
	g.Expect(w.reserve(1)).To(BeTrue())
	g.Expect(r.take(1)).To(BeFalse())
	w.Close()
	g.Expect(w.reserve(1)).To(BeFalse(), "it has ended")
	g.Expect(r.take(5)).To(BeTrue())
}

func TestRefusedShowsAFewNames(t *testing.T) {
	g := NewWithT(t)
	r := NewRoom(1, func() {})
	g.Expect(r.Refused()).To(BeEmpty())
	for i := range 8 {
		r.refuse(&Declared{spec: Spec{Name: fmt.Sprint("kind-", i)}}, true)
	}
	g.Expect(r.Refused()).To(HaveSuffix(strings.Join([]string{"kind-0", "kind-1", "kind-2", "kind-3", "kind-4"}, ", ") + " and 3 more"))
}
