package journal_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	. "github.com/trellis-hub/trellis/hack/fleetsim/journal"
)

func TestHistory(t *testing.T) {
	g := NewWithT(t)
	_, alpha := target(Options{History: 3})
	want := Change{
		Time: start, Verb: "update", Resource: "pods/status", Namespace: "n", Name: "p", UID: "u", ResourceVersion: 7,
		Manager: "m", UserAgent: "a b", User: "w", Connection: "127.0.0.1:1", Changed: true, Before: 1, After: 2, SentAt: time.Unix(5, 6),
	}
	alpha.Wrote(want)
	h := alpha.History()
	g.Expect(h.Target).To(Equal("alpha"))
	g.Expect(h.Lost).To(BeZero())
	g.Expect(h.Changes).To(HaveLen(1))
	g.Expect(h.Changes[0].Time).To(BeTemporally("==", start))
	h.Changes[0].Time = start
	g.Expect(h.Changes[0]).To(Equal(want), "what is kept packed comes out as it went in")
	g.Expect(want.Object()).To(Equal("pods n/p"))
	g.Expect(want.Writer()).To(Equal("m (a, w)"))

	for range 4 {
		want.ResourceVersion++
		alpha.Wrote(want)
	}
	h = alpha.History()
	g.Expect(h.Lost).To(Equal(2))
	var versions []uint64
	for _, c := range h.Changes {
		versions = append(versions, c.ResourceVersion)
	}
	g.Expect(versions).To(Equal([]uint64{9, 10, 11}), "the oldest are lost, and the order is kept")
}

func TestChangesFromATimeOn(t *testing.T) {
	g := NewWithT(t)
	_, alpha := target(Options{History: 3})
	since := func(after time.Duration) []uint64 {
		versions := []uint64{}
		for _, c := range alpha.Changes(start.Add(after)) {
			versions = append(versions, c.ResourceVersion)
		}
		return versions
	}
	g.Expect(since(0)).To(BeEmpty())
	for i := range 5 {
		alpha.Wrote(Change{Time: start.Add(time.Duration(i) * time.Second), Verb: "update", Resource: "pods", Name: "p", ResourceVersion: uint64(i)})
		if i == 1 {
			g.Expect(since(0)).To(Equal([]uint64{0, 1}), "before the ring is full")
		}
	}
	g.Expect(since(0)).To(Equal([]uint64{2, 3, 4}), "the oldest are lost")
	g.Expect(since(3 * time.Second)).To(Equal([]uint64{3, 4}))
	g.Expect(since(5 * time.Second)).To(BeEmpty())
}

func TestNoHistory(t *testing.T) {
	g := NewWithT(t)
	j, alpha := target(Options{History: -1})
	history(alpha, hubWrites(0, 1))
	g.Expect(alpha.History().Changes).To(BeEmpty())
	g.Expect(Repeated(nil, j.Histories()...).Clean()).To(BeFalse(), "without a history nothing is known")
}

func TestWritingDoesNotAllocate(t *testing.T) {
	g := NewWithT(t)
	_, alpha := target(Options{History: 10})
	c := Change{Time: start, Verb: VerbApply, Resource: "pods", Name: "p"}
	n := uint64(0)
	write := func() {
		c.Before, c.After = n, n+1
		n++
		alpha.Wrote(c)
	}
	for range 20 {
		write()
	}
	g.Expect(testing.AllocsPerRun(100, write)).To(BeZero())
}
