package seats

import (
	"context"
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/trellis-hub/trellis/semaphore"
)

const hold = 2 * time.Second

func newLimiter(n int) (*Limiter, *clocktesting.FakeClock) {
	clock := clocktesting.NewFakeClock(time.Now())
	return New(n, hold, clock), clock
}

// of returns a target that is the only one in its namespace.
func of(l *Limiter, name string) *Flow {
	return l.Flow(semaphore.Owner{Namespace: "namespace-of-" + name, Name: name})
}

// acquire waits for a seat in another goroutine; the channel gets the function that releases it.
func acquire(t *testing.T, target *Flow) <-chan func(bool) {
	got := make(chan func(bool), 1)
	go func() {
		if done, err := target.Acquire(t.Context()); err == nil {
			got <- done
		}
	}()
	return got
}

func receive(g Gomega, seat <-chan func(bool)) func(bool) {
	var done func(bool)
	g.Eventually(seat).Should(Receive(&done))
	return done
}

func TestSoManyAtATimeOfAllTargets(t *testing.T) {
	g := NewWithT(t)
	limiter, _ := newLimiter(2)
	a, b := receive(g, acquire(t, of(limiter, "a"))), receive(g, acquire(t, of(limiter, "b")))
	third := acquire(t, of(limiter, "c"))
	g.Consistently(third, "50ms").ShouldNot(Receive())
	a(true)
	a(true) // twice is once
	c := receive(g, third)
	b(true)
	c(false)
	g.Expect(limiter.Held()).To(BeZero())
}

func TestOneTargetHasAFewOfThem(t *testing.T) {
	g := NewWithT(t)
	limiter, _ := newLimiter(50)
	target := of(limiter, "a")
	for range perTarget {
		receive(g, acquire(t, target))
	}
	g.Consistently(acquire(t, target), "50ms").ShouldNot(Receive())
	receive(g, acquire(t, of(limiter, "b")))
}

// One namespace cannot have all seats, whether or not others wait, and slow targets are treated fairly as well.
func TestSeatsAreLeftForOtherNamespaces(t *testing.T) {
	for name, slow := range map[string]bool{"fast": false, "slow flow": true} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			limiter, _ := newLimiter(40)
			for i := range 100 {
				target := limiter.Flow(semaphore.Owner{Namespace: "busy", Name: fmt.Sprint(i)})
				target.slow.Store(slow)
				acquire(t, target)
			}
			want := 30
			if slow {
				want = 6
			}
			g.Eventually(limiter.Held).Should(Equal(want))
			other := of(limiter, "other")
			other.slow.Store(slow)
			receive(g, acquire(t, other))
		})
	}
}

// A target that hangs delays others once, and no longer than a seat may be held.
func TestHangingTargetMovesToTheSlowFlow(t *testing.T) {
	g := NewWithT(t)
	limiter, clock := newLimiter(2)
	hanging, fine := of(limiter, "hanging"), of(limiter, "fine")
	first, second := receive(g, acquire(t, hanging)), receive(g, acquire(t, hanging))
	third := acquire(t, hanging)
	waiting := acquire(t, fine)
	g.Consistently(waiting, "50ms").ShouldNot(Receive())
	clock.Step(hold)
	receive(g, waiting)(true)

	// The one that was waiting moved to the slow flow. All seats there are held now, and no target outside it is delayed.
	last := receive(g, third)
	fourth := acquire(t, hanging)
	g.Consistently(fourth, "50ms").ShouldNot(Receive())
	receive(g, acquire(t, fine))(true)
	receive(g, acquire(t, fine))(true)

	// Work that is completed late still counts.
	first(true)
	last(false)
	receive(g, fourth)
	g.Expect(hanging.slow.Load()).To(BeFalse())
	second(false)
}

func TestWaitingEndsWithTheContext(t *testing.T) {
	g := NewWithT(t)
	limiter, _ := newLimiter(1)
	target := of(limiter, "a")
	done := receive(g, acquire(t, target))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := of(limiter, "b").Acquire(ctx)
	g.Expect(err).To(MatchError(context.Canceled))
	done(true)
	g.Expect(limiter.Held()).To(BeZero())
	receive(g, acquire(t, target))(true)
}
