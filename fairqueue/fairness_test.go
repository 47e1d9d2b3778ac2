package fairqueue

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

func TestFlowsTakeTurns(t *testing.T) {
	g := NewWithT(t)
	q, _ := newTestQueue(t, Options[string]{})
	addMany(q, "a", 3)
	addMany(q, "b", 2)
	addMany(q, "c", 1)
	g.Expect(serve(t, q, 6)).To(Equal([]string{"a/0", "b/0", "c/0", "a/1", "b/1", "a/2"}))
}

func TestALargeFlowDelaysAnotherByOneServiceAtMost(t *testing.T) {
	g := NewWithT(t)
	q, _ := newTestQueue(t, Options[string]{})
	addMany(q, "large", 100_000)
	serve(t, q, 1000)

	q.Add("small/0")
	g.Expect(serve(t, q, 2)).To(ContainElement("small/0"))
	q.Add("small/1")
	g.Expect(serve(t, q, 2)).To(ContainElement("small/1"))
}

func TestAFlowThatIsRefilledAtOnceGainsNothing(t *testing.T) {
	g := NewWithT(t)
	q, _ := newTestQueue(t, Options[string]{})
	addMany(q, "patient", 100)
	q.Add("eager/0")
	eager := 0
	for range 100 {
		item, _ := q.Get()
		q.Done(item)
		if flowOfName(item) == "eager" {
			eager++
			q.Add(item)
		}
	}
	g.Expect(eager).To(Equal(50))
}

func TestManyFlowsAreServedEvenly(t *testing.T) {
	g := NewWithT(t)
	q, _ := newTestQueue(t, Options[string]{})
	for i := range 50 {
		addMany(q, fmt.Sprint(i), 20+i)
	}
	served := map[string]int{}
	for _, item := range serve(t, q, 50*20) {
		served[flowOfName(item)]++
	}
	g.Expect(served).To(HaveLen(50))
	for flow, count := range served {
		g.Expect(count).To(Equal(20), flow)
	}
}

func TestPriorityCountsWithinAFlow(t *testing.T) {
	g := NewWithT(t)
	q, _ := newTestQueue(t, Options[string]{})
	q.AddWithOpts(priority(0), "a/resync")
	q.AddWithOpts(priority(0), "b/resync")
	q.AddWithOpts(priority(10), "b/change")
	q.AddWithOpts(priority(5), "b/drift")
	g.Expect(serve(t, q, 4)).To(Equal([]string{"a/resync", "b/change", "b/drift", "b/resync"}))
}

// With a thousand targets, the looks that are due every ten minutes delayed each correction by seconds.
func TestWhatIsUrgentDoesNotWaitForTheBackgroundOfOthers(t *testing.T) {
	g := NewWithT(t)
	q, _ := newTestQueue(t, Options[string]{})
	for i := range 100 {
		q.AddWithOpts(priority(-100), fmt.Sprintf("%d/resync", i))
	}
	serve(t, q, 10)
	q.AddWithOpts(priority(50), "late/drift")
	q.AddWithOpts(priority(0), "99/resync")
	g.Expect(serve(t, q, 3)).To(Equal([]string{"99/resync", "late/drift", "10/resync"}),
		"one that was waiting already becomes urgent, too")
}

// With 300 of a thousand targets, a change that came to all of them delayed corrections in the others by seconds.
func TestChangesAndUpkeepTakeTurns(t *testing.T) {
	for _, test := range []struct {
		name       string
		many, late int
	}{
		{"many changes", 100, 50},
		{"many retries", 0, 100},
		{"much drift", 50, 200},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := NewWithT(t)
			q, _ := newTestQueue(t, Options[string]{Changes: 100})
			for i := range 100 {
				q.AddWithOpts(priority(test.many), fmt.Sprintf("%d/0", i))
			}
			serve(t, q, 10)
			q.AddWithOpts(priority(test.late), "late/0", "late/1", "later/0")
			g.Expect(serve(t, q, 6)).To(Equal([]string{"late/0", "10/0", "later/0", "11/0", "late/1", "12/0"}))
			g.Expect(serve(t, q, 87)).To(And(HaveLen(87), ContainElement("99/0")), "nothing is lost")
		})
	}
}

// A cold start, or resyncs that are all due, must not occupy all workers.
func TestTheBackgroundHasHalfOfTheWorkers(t *testing.T) {
	g := NewWithT(t)
	q, _ := newTestQueue(t, Options[string]{Seats: 3, Workers: 6})
	for i := range 10 {
		q.AddWithOpts(priority(-1), fmt.Sprintf("%d/resync", i))
	}
	g.Expect(takeAndYield(t, q)).To(HaveLen(3), "although all of them wait for their targets")
	q.Add("0/change")
	g.Expect(take(q)).To(Equal([]string{"0/change"}))
	q.Done("1/resync")
	g.Expect(take(q)).To(Equal([]string{"3/resync"}))
	g.Expect(faults(q)).To(BeEmpty())
}

func TestChangesOfAFlowComeBeforeItsUpkeep(t *testing.T) {
	g := NewWithT(t)
	q, _ := newTestQueue(t, Options[string]{Changes: 100})
	q.AddWithOpts(priority(50), "a/drift", "b/drift")
	q.AddWithOpts(priority(100), "a/change")
	g.Expect(serve(t, q, 3)).To(Equal([]string{"a/change", "b/drift", "a/drift"}))
}

// Both kinds let the background pass.
func TestTheBackgroundPassesChangesAndUpkeep(t *testing.T) {
	g := NewWithT(t)
	q, _ := newTestQueue(t, Options[string]{Changes: 100})
	for i := range 20 {
		q.AddWithOpts(priority(100), fmt.Sprintf("change-%d/0", i))
		q.AddWithOpts(priority(50), fmt.Sprintf("drift-%d/0", i))
	}
	q.AddWithOpts(priority(-100), "a/resync", "b/resync")
	served := serve(t, q, 16)
	g.Expect(served[7]).To(Equal("a/resync"))
	g.Expect(served[15]).To(Equal("b/resync"))
}

// Background items are not urgent: their waiting time is no sign of too few workers.
func TestTheBackgroundIsNoWait(t *testing.T) {
	g := NewWithT(t)
	q, clock := newTestQueue(t, Options[string]{})
	q.AddWithOpts(priority(-100), "a/resync")
	clock.Step(time.Minute)
	g.Expect(q.measure().oldest).To(BeZero())
	q.Add("a/change")
	clock.Step(time.Second)
	g.Expect(q.measure().oldest).To(Equal(time.Second))
	g.Expect(q.inFlows()[0].Oldest).To(Equal(time.Second))
}

func TestTheBackgroundIsNotStarved(t *testing.T) {
	g := NewWithT(t)
	q, _ := newTestQueue(t, Options[string]{})
	for i := range 10 {
		q.AddWithOpts(priority(-100), fmt.Sprintf("%d/resync", i))
	}
	addMany(q, "large", 1000)
	served := map[string]int{}
	for _, item := range serve(t, q, 80) {
		served[flowOfName(item)]++
	}
	g.Expect(served).To(HaveLen(11), "one in eight")
	g.Expect(served["large"]).To(Equal(70))
}

// A flow that has something in flight lets those go first that have nothing, for it may turn out to hang.
func TestAFlowGetsASecondItemOnceTheOthersHaveOne(t *testing.T) {
	g := NewWithT(t)
	q, _ := newTestQueue(t, Options[string]{MaxInFlight: limit(3)})
	next := func() string {
		item, _ := q.Get()
		return item
	}
	addMany(q, "a", 4)
	g.Expect(next()).To(Equal("a/0"))
	q.Add("b/0")
	q.Add("c/0")
	g.Expect(next()).To(Equal("b/0"))
	q.Add("b/1")
	g.Expect(next()).To(Equal("c/0"))
	g.Expect(next()).To(Equal("a/1"), "then it has waited longest")
	g.Expect(next()).To(Equal("b/1"))
	q.Done("a/0")
	q.Add("c/1")
	q.Done("c/0")
	g.Expect(next()).To(Equal("c/1"))
}
