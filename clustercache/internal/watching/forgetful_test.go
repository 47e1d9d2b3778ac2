package watching

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// A forgotten version is no error. A target that forgets each version cannot be watched: this is reported, and the
// pauses between its lists grow.
func TestTargetThatForgetsEachList(t *testing.T) {
	s := newSetting(t, 100)
	of := newSite(t, 1)
	of.forgets.Store(true)
	w, recorded := s.watch("forgotten", of)
	for lists := range int32(forgetful) {
		s.g.Eventually(of.lists.Load).Should(Equal(lists + 1))
		s.g.Eventually(s.clock.HasWaiters).Should(BeTrue())
		_, errs, _ := recorded.calls()
		if lists+1 < forgetful {
			s.g.Expect(errs).To(BeEmpty())
		} else {
			s.g.Expect(errs).To(HaveExactElements(MatchError(ErrForgetful)))
		}
		pause := watchRetryMin << lists
		s.clock.Step(pause - time.Nanosecond)
		s.g.Expect(s.clock.HasWaiters()).To(BeTrue(), "the pause is not over")
		if lists+1 == forgetful {
			of.forgets.Store(false)
		}
		s.clock.Step(pause)
	}
	s.g.Eventually(state(w)).Should(Equal([2]any{true, 1}))
	deleted, _, _ := recorded.calls()
	s.g.Expect(deleted).To(BeEmpty())
}
