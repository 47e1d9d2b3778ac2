package fairqueue

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

func TestALaneHasACapOnItemsInFlight(t *testing.T) {
	for name, test := range map[string]struct {
		maxInFlight func(string) int
		expected    []string
	}{
		"two by default":      {nil, []string{"a/0", "b/0", "a/1", "b/1"}},
		"one":                 {limit(1), []string{"a/0", "b/0"}},
		"three":               {limit(3), []string{"a/0", "b/0", "a/1", "b/1", "a/2", "b/2"}},
		"less than one":       {limit(-1), []string{"a/0", "b/0"}},
		"different for lanes": {func(lane string) int { return map[string]int{"a": 1, "b": 3}[lane] }, []string{"a/0", "b/0", "b/1", "b/2"}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			q, _ := newTestQueue(t, Options[string]{MaxInFlight: test.maxInFlight})
			addMany(q, "a", 5)
			addMany(q, "b", 5)
			g.Expect(take(q)).To(Equal(test.expected))

			q.Done("a/0")
			next := take(q)
			g.Expect(next).To(HaveLen(1))
			g.Expect(laneOf(next[0])).To(Equal("a"))
		})
	}
}

func TestW20_AHangingLaneLeavesTheOthersAlone(t *testing.T) {
	g := NewWithT(t)
	q, _ := newTestQueue(t, Options[string]{})
	addMany(q, "hanging", 100)
	g.Expect(take(q)).To(HaveLen(2))

	addMany(q, "fine", 10)
	for _, item := range work(t, q, 10) {
		g.Expect(laneOf(item)).To(Equal("fine"))
	}
	g.Expect(available(q)).To(BeFalse())
	g.Expect(q.Len()).To(Equal(98))
}

func TestTheCapMayChange(t *testing.T) {
	g := NewWithT(t)
	atMost := 1
	q, _ := newTestQueue(t, Options[string]{MaxInFlight: func(string) int { return atMost }})
	addMany(q, "a", 5)
	g.Expect(take(q)).To(Equal([]string{"a/0"}))

	atMost = 3
	q.Add("a/5")
	g.Expect(take(q)).To(Equal([]string{"a/1", "a/2"}))

	atMost = 1
	q.Done("a/0")
	q.Done("a/1")
	g.Expect(take(q)).To(BeEmpty())
	q.Done("a/2")
	g.Expect(take(q)).To(Equal([]string{"a/3"}))
}

func TestAnItemFollowsItsLane(t *testing.T) {
	g := NewWithT(t)
	lanes := map[string]string{"x": "a", "y": "a", "z": "a"}
	q, clock := newTestQueue(t, Options[string]{
		Lane: func(item string) string { return lanes[item] }, MaxInFlight: func(lane string) int { return map[string]int{"a": 1, "b": 5}[lane] },
	})

	lanes["busy"] = "a"
	q.Add("busy")
	g.Expect(take(q)).To(Equal([]string{"busy"}), "the lane has no room for others")
	q.Add("x")
	q.Add("y")
	q.AddAfter("z", time.Second)
	lanes["x"], lanes["z"] = "b", "b"
	g.Expect(take(q)).To(BeEmpty(), "until it is added again it stays")
	q.Add("x")
	g.Expect(take(q)).To(Equal([]string{"x"}))

	clock.Step(time.Second)
	g.Eventually(func() []string { return take(q) }).Should(Equal([]string{"z"}), "the lane of a delayed item is that of the moment it is due")

	q.Add("x")
	lanes["x"] = "a"
	q.Done("x")
	g.Expect(take(q)).To(BeEmpty(), "the lane of an item added during the work is that of the moment of Done")
	q.Done("busy")
	g.Expect(take(q)).To(Equal([]string{"y"}))
	q.Done("y")
	g.Expect(take(q)).To(Equal([]string{"x"}))
}

func TestEmptyLanesDoNotExist(t *testing.T) {
	g := NewWithT(t)
	q, _ := newTestQueue(t, Options[string]{})
	for _, lane := range []string{"a", "b", "c"} {
		addMany(q, lane, 2)
	}
	g.Expect(q.lanes).To(HaveLen(3))
	work(t, q, 6)
	g.Expect(q.lanes).To(BeEmpty())
	g.Expect(q.entries).To(BeEmpty())
	g.Expect(q.inFlight).To(BeEmpty())
}

// The lane of an item that was added during the work stays the one it is, whatever the end of that work says about it.
func TestAnItemAddedDuringTheWorkStaysInItsLane(t *testing.T) {
	for name, test := range map[string]struct {
		first, second time.Duration // how long the work takes
	}{
		"nothing was known":     {0, 0},
		"it was swift":          {0, time.Minute},
		"it was slow":           {time.Minute, 0},
		"it was and stays slow": {time.Minute, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			q, clock := newTestQueue(t, Options[string]{Places: 2, MaxInFlight: limit(1)})
			q.Add("a/0")
			for _, takes := range []time.Duration{test.first, test.second} {
				g.Expect(take(q)).To(Equal([]string{"a/0"}))
				q.Add("a/0")
				clock.Step(takes)
				g.Eventually(func() bool { return overdue(q) }).Should(BeFalse())
				q.Done("a/0")
				g.Expect(faults(q)).To(BeEmpty())
			}
			q.Add("a/1")
			g.Expect(take(q)).To(Equal([]string{"a/0"}), "one at a time")
			g.Expect(q.measure().lanes).To(Equal(1))
			q.Done("a/0")
			g.Expect(take(q)).To(Equal([]string{"a/1"}))
			g.Expect(faults(q)).To(BeEmpty())
		})
	}
}
