package app

import (
	"context"
	"runtime"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	clocktesting "k8s.io/utils/clock/testing"
)

// Memory is released once, when the source is known and targets have had their time to be listed.
func TestMemoryIsReleasedOnceAfterTheStart(t *testing.T) {
	g := NewWithT(t)
	clock := clocktesting.NewFakeClock(time.Now())
	h := &hub{Options: Options{Clock: clock}, synced: make(chan struct{})}
	releases := func() uint32 { // each is a garbage collection that was asked for
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		return stats.NumForcedGC
	}
	before := releases()
	ended := make(chan error, 1)
	go func() { ended <- h.releaseMemory(t.Context()) }()
	g.Consistently(clock.HasWaiters, "50ms").Should(BeFalse(), "the source is not known")
	close(h.synced)
	g.Eventually(clock.HasWaiters).Should(BeTrue())
	clock.Step(startTime - 1)
	g.Consistently(ended, "50ms").ShouldNot(Receive())
	g.Expect(releases()).To(Equal(before))
	clock.Step(1)
	g.Eventually(ended).Should(Receive(BeNil()))
	g.Expect(releases()).To(Equal(before + 1))
	g.Expect(clock.HasWaiters()).To(BeFalse())
}

// A hub that ends before that waits for nothing.
func TestMemoryIsNotReleasedAtTheEnd(t *testing.T) {
	g := NewWithT(t)
	h := &hub{Options: Options{Clock: clocktesting.NewFakeClock(time.Now())}, synced: make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	g.Expect(h.releaseMemory(ctx)).To(Succeed())
	close(h.synced)
	g.Expect(h.releaseMemory(ctx)).To(Succeed())
}
