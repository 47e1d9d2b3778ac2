package fairqueue

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

func TestAParkedLaneKeepsItsItems(t *testing.T) {
	g := NewWithT(t)
	q, _ := newTestQueue(t, Options[string]{MaxInFlight: limit(10)})
	addMany(q, "down", 2)
	q.Park("down")
	addMany(q, "down", 3)
	addMany(q, "up", 1)

	g.Expect(take(q)).To(Equal([]string{"up/0"}))
	g.Expect(q.Len()).To(Equal(0))

	q.AddWithOpts(priority(1), "down/2")
	q.Unpark("down")
	g.Expect(q.Len()).To(Equal(3))
	g.Expect(take(q)).To(Equal([]string{"down/2", "down/0", "down/1"}))
}

func TestALaneCanBeParkedBeforeItHasItems(t *testing.T) {
	g := NewWithT(t)
	q, clock := newTestQueue(t, Options[string]{})
	q.Park("down")
	q.Park("down")
	q.Add("down/0")
	q.AddAfter("down/1", time.Second)
	clock.Step(time.Second)
	g.Eventually(func() int { return q.measure().parked }).Should(Equal(2))
	g.Expect(take(q)).To(BeEmpty())
	q.Unpark("down")
	g.Expect(take(q)).To(Equal([]string{"down/0", "down/1"}))
	q.Unpark("other")
}

func TestParkingDoesNotTouchWhatIsInFlight(t *testing.T) {
	g := NewWithT(t)
	q, _ := newTestQueue(t, Options[string]{})
	q.Add("a/0")
	g.Expect(take(q)).To(Equal([]string{"a/0"}))
	q.Park("a")
	q.Add("a/0")
	q.Done("a/0")
	g.Expect(take(q)).To(BeEmpty())
	q.Unpark("a")
	g.Expect(take(q)).To(Equal([]string{"a/0"}))
}

func TestUnparkWakesAWaitingGet(t *testing.T) {
	g := NewWithT(t)
	q, _ := newTestQueue(t, Options[string]{})
	q.Park("a")
	q.Add("a/0")
	got := make(chan string)
	go func() {
		item, _ := q.Get()
		got <- item
	}()
	g.Consistently(got, "30ms").ShouldNot(Receive())
	q.Unpark("a")
	g.Eventually(got).Should(Receive(Equal("a/0")))
}
