package follow

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/trellis-hub/trellis/clustercache/internal/answers"
	"github.com/trellis-hub/trellis/semaphore"
)

// reader is a stream of a target that reads large documents.
func reader(t *testing.T, clock *clocktesting.FakeClock, slow func()) *frames {
	t.Helper()
	return &frames{ctx: t.Context(), call: t.Context(), slow: slow, clock: clock}
}

// A seat that is carried over from one document to the next is held for a limited time while others wait for one.
func TestSeatThatIsCarriedOverIsKeptForALimitedTime(t *testing.T) {
	for name, waits := range map[string]bool{"others wait": true, "no others wait": false} {
		t.Run(name, func(t *testing.T) {
			g, clock := NewWithT(t), clocktesting.NewFakeClock(time.Now())
			budget := NewBudget()
			budget.medium = semaphore.New(semaphore.Options{Size: 1})
			slow := 0
			share := budget.Share(semaphore.Owner{Namespace: "a", Name: "a"})
			p, err := share.read(reader(t, clock, func() { slow++ }), nil, 2*freeRead)
			g.Expect(err).NotTo(HaveOccurred())
			if waits {
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					_, _ = budget.medium.Acquire(ctx, semaphore.Owner{Namespace: "b", Name: "b"}, 1)
				}()
				defer func() { cancel(); <-ended }()
				g.Eventually(budget.medium.Waiting).Should(Equal(1))
			}
			for range 2 {
				clock.Step(slowDocument * 2 / 3)
				p.end()
				clock.Step(slowDocument)
				g.Expect(slow).To(BeZero(), "a document that arrived is not slow, whatever it waits for")
				if !waits {
					g.Expect(p.carryOver(2*freeRead, clock)).To(BeTrue())
				}
			}
			g.Expect(p.carryOver(2*freeRead, clock)).To(Equal(!waits))
			clock.Step(slowDocument)
			g.Expect(slow).To(Equal(1), "the next document has as much time as any")
			p.release()
			g.Expect(budget.medium.Waiting()).To(BeZero())
		})
	}
}

// Waiting for a seat is no fault of the server, so the deadline of the call does not run meanwhile.
func TestDeadlineOfTheCallRestsWhileItWaitsForASeat(t *testing.T) {
	g := NewWithT(t)
	paused := 0
	f := reader(t, clocktesting.NewFakeClock(time.Now()), func() {})
	f.call = answers.WithPause(t.Context(), func(wait func() error) error {
		paused++
		return wait()
	})
	share := NewBudget().Share(semaphore.Owner{Namespace: "a", Name: "a"})
	p, err := share.read(f, nil, 2*mediumRead)
	g.Expect(err).NotTo(HaveOccurred())
	p.release()
	release, err := share.decode(f.ctx, f.call, 2*freeDecode, 0)
	g.Expect(err).NotTo(HaveOccurred())
	release()
	g.Expect(paused).To(Equal(2))
}
