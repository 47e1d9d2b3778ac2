package watching

import (
	"sync"
	"testing"

	. "github.com/onsi/gomega"
)

// A stream that still has subscriptions must not keep one that was closed while it joined.
func TestSubscriptionsThatAreClosedWhileTheyJoinLeaveNothing(t *testing.T) {
	g := NewWithT(t)
	w := NewStream(t.Context(), Spec{Name: "w"})
	defer w.Close()
	stays := w.Subscribe("stays", nil)
	stays.Join()
	for range 20_000 {
		s := w.Subscribe("leaves", nil)
		var both sync.WaitGroup
		both.Go(s.Join)
		both.Go(func() { s.Close() })
		both.Wait()
		g.Expect(s.Live()).To(BeFalse())
	}
	g.Expect(w.subscriptions()).To(HaveExactElements(stays))
}
