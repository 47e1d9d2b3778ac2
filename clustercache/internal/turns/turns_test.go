package turns

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	clocktesting "k8s.io/utils/clock/testing"
)

const length = 2 * time.Second

func newTurns(n int) (*Turns, *clocktesting.FakeClock) {
	clock := clocktesting.NewFakeClock(time.Now())
	return New(n, length, clock), clock
}

// take has a share take a turn beside the test; the channel gets what ends it.
func take(t *testing.T, s *Share) <-chan func(bool) {
	got := make(chan func(bool), 1)
	go func() {
		if done, err := s.Take(t.Context()); err == nil {
			got <- done
		}
	}()
	return got
}

func receive(g Gomega, turn <-chan func(bool)) func(bool) {
	var done func(bool)
	g.Eventually(turn).Should(Receive(&done))
	return done
}

func TestSoManyAtATimeOfAllTargets(t *testing.T) {
	g := NewWithT(t)
	turns, _ := newTurns(2)
	a, b := receive(g, take(t, turns.Share())), receive(g, take(t, turns.Share()))
	third := take(t, turns.Share())
	g.Consistently(third, "50ms").ShouldNot(Receive())
	a(true)
	a(true) // twice is once
	c := receive(g, third)
	b(true)
	c(false)
	g.Expect(turns.Taken()).To(BeZero())
}

func TestOneTargetHasAFewOfThem(t *testing.T) {
	g := NewWithT(t)
	turns, _ := newTurns(50)
	share := turns.Share()
	for range perTarget {
		receive(g, take(t, share))
	}
	g.Consistently(take(t, share), "50ms").ShouldNot(Receive())
	receive(g, take(t, turns.Share()))
}

// Who hangs keeps nobody waiting for longer than a turn, and not again.
func TestWhoNeedsLongerWaitsInAnotherLine(t *testing.T) {
	g := NewWithT(t)
	turns, clock := newTurns(2)
	hanging, fine := turns.Share(), turns.Share()
	first, second := receive(g, take(t, hanging)), receive(g, take(t, hanging))
	third := take(t, hanging)
	waiting := take(t, fine)
	g.Consistently(waiting, "50ms").ShouldNot(Receive())
	clock.Step(length)
	receive(g, waiting)(true)

	// The one that was in line moved to the other line. All places there are taken now, and nobody else notices.
	last := receive(g, third)
	fourth := take(t, hanging)
	g.Consistently(fourth, "50ms").ShouldNot(Receive())
	receive(g, take(t, fine))(true)
	receive(g, take(t, fine))(true)

	// What comes late is still in time to be trusted again.
	first(true)
	last(false)
	receive(g, fourth)
	g.Expect(hanging.slow.Load()).To(BeFalse())
	second(false)
}

func TestWaitingEndsWithTheContext(t *testing.T) {
	g := NewWithT(t)
	turns, _ := newTurns(1)
	share := turns.Share()
	done := receive(g, take(t, share))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := turns.Share().Take(ctx)
	g.Expect(err).To(MatchError(context.Canceled))
	done(true)
	g.Expect(turns.Taken()).To(BeZero())
	for range perTarget {
		receive(g, take(t, share))(true)
	}
}
