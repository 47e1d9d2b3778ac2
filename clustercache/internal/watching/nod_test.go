package watching

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// A bookmark is noted at once while nothing is awaited. While the watch catches up it ends that, which takes more.
func TestBookmarkIsNotedOnlyWhileNothingIsAwaited(t *testing.T) {
	s := newSetting(t, 100)
	site := newSite(t, 3)
	w, _ := s.watch("noted", site)
	s.g.Eventually(state(w)).Should(Equal([2]any{true, 3}))
	w.mu.RLock()
	b := w.syncedBy
	w.mu.RUnlock()
	site.events <- is(3) // what is handled after that it is open
	s.g.Eventually(state(w)).Should(Equal([2]any{true, 4}))

	long := time.Now().Add(-time.Hour)
	b.hearing.last.Store(long.UnixNano())
	b.hearing.strikes.Store(1)
	b.gap.catching.Store(true)
	s.g.Expect(b.Nod()).To(BeFalse())
	s.g.Expect(b.hearing.silent(time.Now())).To(BeNumerically(">=", time.Hour), "it is still to be told")
	s.g.Expect(b.hearing.bookmarks.Load()).To(BeFalse())

	b.gap.catching.Store(false)
	s.g.Expect(b.Nod()).To(BeTrue())
	s.g.Expect(b.hearing.silent(b.connection.Clock.Now())).To(BeNumerically("<", time.Hour))
	s.g.Expect(b.hearing.strikes.Load()).To(BeZero())
	s.g.Expect(b.hearing.bookmarks.Load()).To(BeTrue())
}
