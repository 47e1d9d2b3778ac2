package watching

import (
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
)

// A connection that is built beside the serving one lists its objects and waits until it replaces it. Changes in between
// are delivered when it does, and each of them once.
func TestWhatHappensBetweenListAndTakeover(t *testing.T) {
	s := newSetting(t, 100)
	old, next := newSite(t, 3), newSite(t, 3)
	w, recorded := s.watch("staged", old)
	s.g.Eventually(state(w)).Should(Equal([2]any{true, 3}))
	s.g.Eventually(recorded.changes).Should(ConsistOf("object-0 1", "object-1 1", "object-2 1"))

	b := s.bind(w, next)
	s.g.Eventually(b.Outcome()).Should(Receive(BeNil()))
	for i, what := range []string{event("MODIFIED", 0, 201), event("DELETED", 1, 202), event("ADDED", 7, 203)} {
		next.events <- what
		s.g.Eventually(b.connection.Events.Load).Should(BeEquivalentTo(4 + i))
	}
	s.g.Expect(recorded.changes()).To(HaveLen(3), "the old connection serves")

	w.Promote(b)
	s.g.Eventually(func() []string { return recorded.changes()[3:] }).Should(ConsistOf("object-0 201", "object-7 203"))
	deleted, errs, _ := recorded.calls()
	s.g.Expect(deleted).To(ConsistOf("object-1"))
	s.g.Expect(errs).To(BeEmpty())
	_, found, synced := w.Lookup(types.NamespacedName{Name: "object-1"})
	s.g.Expect([]bool{found, synced}).To(Equal([]bool{false, true}))

	next.events <- event("ADDED", 8, 204)
	s.g.Eventually(func() []string { return recorded.changes()[5:] }).Should(ConsistOf("object-8 204"))
}
