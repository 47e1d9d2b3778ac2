package fairqueue

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

func TestSeatsBoundWorkThatDoesNotWait(t *testing.T) {
	g := NewWithT(t)
	q, _ := newTestQueue(t, Options[string]{Seats: 2, Workers: 10})
	for _, item := range []string{"a/0", "b/0", "c/0", "d/0"} {
		q.Add(item)
	}
	g.Expect(take(q)).To(Equal([]string{"a/0", "b/0"}))
	ofA := q.Context(t.Context(), "a/0")
	Yield(ofA)
	g.Expect(take(q)).To(Equal([]string{"c/0"}), "a/0 waits for its target")
	Yield(ofA)
	g.Expect(take(q)).To(BeEmpty(), "it has no second seat to give up")
	q.Done("a/0")
	g.Expect(take(q)).To(BeEmpty(), "nor has it one when it is done")
	q.Done("b/0")
	g.Expect(take(q)).To(Equal([]string{"d/0"}))
	Yield(ofA)
	g.Expect(faults(q)).To(BeEmpty())
}

// What waits in Get is woken when a seat becomes free.
func TestYieldWakesAWorker(t *testing.T) {
	g := NewWithT(t)
	q, _ := newTestQueue(t, Options[string]{Seats: 1, Workers: 2})
	q.Add("a/0")
	q.Add("b/0")
	g.Expect(take(q)).To(Equal([]string{"a/0"}))
	got := make(chan string, 1)
	go func() {
		item, _ := q.Get()
		got <- item
	}()
	g.Consistently(got, "50ms").ShouldNot(Receive())
	Yield(q.Context(t.Context(), "a/0"))
	g.Eventually(got).Should(Receive(Equal("b/0")))
}

func TestYieldWithoutAQueueDoesNothing(t *testing.T) {
	Yield(context.Background())
	q, _ := newTestQueue(t, Options[string]{Seats: 1})
	Yield(q.Context(t.Context(), "unknown/0"))
	NewWithT(t).Expect(faults(q)).To(BeEmpty())
}

func TestWorkKeepsItsSeatWhileItsTargetAnswers(t *testing.T) {
	g := NewWithT(t)
	q, clock := newTestQueue(t, Options[string]{Seats: 1, Workers: 10})
	for _, item := range []string{"a/0", "b/0", "c/0"} {
		q.Add(item)
	}
	g.Expect(take(q)).To(Equal([]string{"a/0"}))
	ofA := q.Context(t.Context(), "a/0")
	clock.Step(time.Minute)
	g.Expect(take(q)).To(BeEmpty(), "it computes")
	answered := Call(ofA)
	// Two calls at a time. The steps are well below patience: when the time is up during a step, the call that follows
	// it may come before or after the queue looks.
	for range 40 {
		clock.Step(mostPatience / 4)
		next := Call(ofA)
		answered()
		answered = next
		g.Eventually(clock.HasWaiters).Should(BeTrue(), "it listens on")
		g.Expect(take(q)).To(BeEmpty(), "the target answers")
	}
	answered()
	for range 10 {
		clock.Step(mostPatience)
		g.Eventually(clock.HasWaiters).Should(BeTrue(), "it listens on")
		g.Expect(take(q)).To(BeEmpty(), "it waits for something else than its target")
	}
	answered = Call(ofA)
	clock.Step(mostPatience / 2)
	g.Expect(take(q)).To(BeEmpty(), "the target has time to answer")
	clock.Step(mostPatience / 2)
	g.Eventually(func() []string { clock.Step(mostPatience); return take(q) }).Should(Equal([]string{"b/0"}), "it is silent")
	answered()
	q.Done("a/0")
	g.Expect(take(q)).To(BeEmpty(), "it had no second seat")

	defer Call(q.Context(t.Context(), "b/0"))()
	q.Done("b/0")
	g.Expect(take(q)).To(Equal([]string{"c/0"}))
	clock.Step(time.Minute)
	g.Expect(q.seated).To(Equal(1), "what is done has no seat to give up")
	g.Expect(clock.HasWaiters()).To(BeFalse())
	g.Expect(faults(q)).To(BeEmpty())
}

func TestPatienceFollowsTheTimeOfAnswers(t *testing.T) {
	g := NewWithT(t)
	q, clock := newTestQueue(t, Options[string]{Seats: 1, Workers: 10})
	q.Add("a/0")
	g.Expect(take(q)).To(Equal([]string{"a/0"}))
	ctx := q.Context(t.Context(), "a/0")
	g.Expect(q.answers.patience()).To(Equal(mostPatience), "nothing is known yet")
	answers := func(n int, after time.Duration) {
		for range n {
			answered := Call(ctx)
			clock.Step(after)
			answered()
		}
	}
	answers(100, 20*time.Millisecond)
	g.Expect(q.answers.patience()).To(BeNumerically("~", 80*time.Millisecond, time.Millisecond))
	answers(100, time.Millisecond)
	g.Expect(q.answers.patience()).To(Equal(leastPatience))
	answers(1, time.Hour)
	g.Expect(q.answers.patience()).To(BeNumerically("<", mostPatience/4), "one of many")
	answers(100, time.Hour)
	g.Expect(q.answers.patience()).To(BeNumerically("~", mostPatience, time.Millisecond))
}
