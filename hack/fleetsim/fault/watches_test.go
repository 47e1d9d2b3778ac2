package fault_test

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/trellis-hub/trellis/hack/fleetsim/fault"
)

func TestASilentWatchLosesEventsAndStaysOpen(t *testing.T) {
	g := NewWithT(t)
	s := start(t)
	v := s.client(t)
	w := v.watch(t, s)
	s.add("before")
	g.Expect(next(w, patience)).To(Equal("before"))

	s.set(t, fault.Fault{Kind: fault.SilentWatch})
	s.add("lost")
	g.Eventually(s.struck(fault.SilentWatch), patience).Should(Equal(uint64(1)))
	late := v.watch(t, s)
	s.add("lost, too")
	g.Eventually(s.struck(fault.SilentWatch), patience).Should(Equal(uint64(3)))
	g.Expect(v.list(patience)).To(Succeed(), "a list is no watch")

	s.clear(t)
	s.add("after")
	g.Expect(next(w, patience)).To(Equal("after"))
	g.Expect(next(late, patience)).To(Equal("after"))
}

func TestASlowWatchIsLateAndKeepsTheOrder(t *testing.T) {
	g := NewWithT(t)
	s := start(t)
	w := s.client(t).watch(t, s)
	s.set(t, fault.Fault{Kind: fault.SlowWatch, Delay: duration(brief), Jitter: duration(brief)})
	began := time.Now()
	const events = 200
	for i := range events {
		s.add(fmt.Sprint(i))
	}
	for i := range events {
		g.Expect(next(w, patience)).To(Equal(fmt.Sprint(i)))
		g.Expect(time.Since(began)).To(BeNumerically(">=", brief))
	}
	g.Expect(time.Since(began)).To(BeNumerically("<", events*brief), "delays of events do not add up")
}

func TestEventsOnTheirWayArriveWhenASlowWatchIsCleared(t *testing.T) {
	g := NewWithT(t)
	s := start(t)
	w := s.client(t).watch(t, s)
	s.set(t, fault.Fault{Kind: fault.SlowWatch, Delay: duration(time.Hour)})
	s.add("first")
	s.add("second")
	g.Eventually(s.struck(fault.SlowWatch), patience).Should(Equal(uint64(2)))
	_, err := next(w, brief)
	g.Expect(err).To(HaveOccurred())
	s.clear(t)
	s.add("third")
	for _, name := range []string{"first", "second", "third"} {
		g.Expect(next(w, patience)).To(Equal(name))
	}
}

func TestADripDoesNotEndAWatch(t *testing.T) {
	g := NewWithT(t)
	s := start(t)
	s.deadline.Store(int64(brief))
	w := s.client(t).watch(t, s)
	s.set(t, fault.Fault{Kind: fault.Drip, Rate: 100}) // an event takes longer than brief
	for _, name := range []string{"first", "second"} {
		began := time.Now()
		s.add(name)
		g.Expect(next(w, patience)).To(Equal(name))
		g.Expect(time.Since(began)).To(BeNumerically(">", brief))
	}
}
