package fairqueue

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

func TestAFlowHasACapOnItemsInFlight(t *testing.T) {
	for name, test := range map[string]struct {
		maxInFlight func(string) int
		expected    []string
	}{
		"two by default": {nil, []string{"a/0", "b/0", "a/1", "b/1"}},
		"one":            {limit(1), []string{"a/0", "b/0"}},
		"three":          {limit(3), []string{"a/0", "b/0", "a/1", "b/1", "a/2", "b/2"}},
		"less than one":  {limit(-1), []string{"a/0", "b/0"}},
		"different for flows": {func(flow string) int { return map[string]int{"a": 1, "b": 3}[flow] },
			[]string{"a/0", "b/0", "b/1", "b/2"}},
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
			g.Expect(flowOfName(next[0])).To(Equal("a"))
		})
	}
}

func TestW20_AHangingFlowLeavesTheOthersAlone(t *testing.T) {
	g := NewWithT(t)
	q, _ := newTestQueue(t, Options[string]{})
	addMany(q, "hanging", 100)
	g.Expect(take(q)).To(HaveLen(2))

	addMany(q, "fine", 10)
	for _, item := range serve(t, q, 10) {
		g.Expect(flowOfName(item)).To(Equal("fine"))
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

func TestAnItemFollowsItsFlow(t *testing.T) {
	g := NewWithT(t)
	flows := map[string]string{"x": "a", "y": "a", "z": "a"}
	q, clock := newTestQueue(t, Options[string]{
		Flow:        func(item string) string { return flows[item] },
		MaxInFlight: func(flow string) int { return map[string]int{"a": 1, "b": 5}[flow] },
	})

	flows["busy"] = "a"
	q.Add("busy")
	g.Expect(take(q)).To(Equal([]string{"busy"}), "the flow has no room for others")
	q.Add("x")
	q.Add("y")
	q.AddAfter("z", time.Second)
	flows["x"], flows["z"] = "b", "b"
	g.Expect(take(q)).To(BeEmpty(), "until it is added again it stays")
	q.Add("x")
	g.Expect(take(q)).To(Equal([]string{"x"}))

	clock.Step(time.Second)
	g.Eventually(func() []string { return take(q) }).Should(
		Equal([]string{"z"}), "the flow of a delayed item is that of the moment it is due")

	q.Add("x")
	flows["x"] = "a"
	q.Done("x")
	g.Expect(take(q)).To(BeEmpty(), "the flow of an item added during the work is that of the moment of Done")
	q.Done("busy")
	g.Expect(take(q)).To(Equal([]string{"y"}))
	q.Done("y")
	g.Expect(take(q)).To(Equal([]string{"x"}))
}

func TestEmptyFlowsDoNotExist(t *testing.T) {
	g := NewWithT(t)
	q, _ := newTestQueue(t, Options[string]{})
	for _, flow := range []string{"a", "b", "c"} {
		addMany(q, flow, 2)
	}
	g.Expect(q.flows).To(HaveLen(3))
	serve(t, q, 6)
	g.Expect(q.flows).To(BeEmpty())
	g.Expect(q.entries).To(BeEmpty())
	g.Expect(q.inFlight).To(BeEmpty())
}
