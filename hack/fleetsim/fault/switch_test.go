package fault_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/trellis-hub/trellis/hack/fleetsim/fault"
)

func TestAFaultThatMakesNoSenseIsRefused(t *testing.T) {
	for _, c := range []struct {
		name  string
		fault fault.Fault
		says  string
	}{
		{"no kind", fault.Fault{}, `kind "" is unknown: it is one of [latency `},
		{"unknown kind", fault.Fault{Kind: "slow"}, `kind "slow" is unknown`},
		{"status without a code", fault.Fault{Kind: fault.Status}, "the code 0 is not between 400 and 599"},
		{"status with a success", fault.Fault{Kind: fault.Status, Code: 200}, "the code 200 is not between 400 and 599"},
		{"drip without a rate", fault.Fault{Kind: fault.Drip}, "the rate is 0"},
		{"drip backwards", fault.Fault{Kind: fault.Drip, Rate: -1}, "the rate is -1"},
		{"no latency", fault.Fault{Kind: fault.Latency}, "needs a delay"},
		{"negative latency", fault.Fault{Kind: fault.Latency, Delay: duration(-1)}, "the delay -1ns is not between 0 and 1h0m0s"},
		{"endless jitter", fault.Fault{Kind: fault.Latency, Jitter: duration(2 * time.Hour)}, "the jitter 2h0m0s is not"},
		{"too large a share", fault.Fault{Kind: fault.Hang, Share: 30}, "the share 30 is not between 0 and 1"},
		{"a share that is none", fault.Fault{Kind: fault.Hang, Share: math.NaN()}, "the share NaN is not"},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := NewWithT(t)
			faults := fault.New(fault.Options{})
			_, err := faults.Set(c.fault)
			g.Expect(err).To(MatchError(ContainSubstring(c.says)))
			g.Expect(faults.List()).To(BeEmpty())
		})
	}
}

func TestFaultsAreReplacedByIDAndClearedByIDOrKind(t *testing.T) {
	g := NewWithT(t)
	faults := fault.New(fault.Options{})
	first, err := faults.Set(fault.Fault{Kind: fault.Hang})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(first.ID).To(Equal("hang-1"))
	for _, f := range []fault.Fault{{ID: "x", Kind: fault.GoAway}, {ID: "x", Kind: fault.Drip, Rate: 1}, {Kind: fault.Hang}, {Kind: fault.BlackHole}} {
		_, err := faults.Set(f)
		g.Expect(err).NotTo(HaveOccurred())
	}
	ids := func() (ids []string) {
		for _, s := range faults.List() {
			ids = append(ids, s.ID)
		}
		return ids
	}
	g.Expect(ids()).To(Equal([]string{"hang-1", "x", "hang-4", "blackhole-5"}))
	g.Expect(faults.Clear("nothing")).To(BeZero())
	g.Expect(faults.Clear("hang")).To(Equal(2))
	g.Expect(faults.Clear("x")).To(Equal(1))
	g.Expect(ids()).To(Equal([]string{"blackhole-5"}))
	g.Expect(faults.Clear()).To(Equal(1))
}

func TestFaultsAreBounded(t *testing.T) {
	g := NewWithT(t)
	faults := fault.New(fault.Options{})
	for i := range 64 {
		_, err := faults.Set(fault.Fault{ID: fmt.Sprint(i), Kind: fault.Hang})
		g.Expect(err).NotTo(HaveOccurred())
	}
	_, err := faults.Set(fault.Fault{Kind: fault.Hang})
	g.Expect(err).To(MatchError(ContainSubstring("there are already 64 faults")))
	_, err = faults.Set(fault.Fault{ID: "3", Kind: fault.GoAway})
	g.Expect(err).NotTo(HaveOccurred(), "another one in its place")
}

func TestGlob(t *testing.T) {
	for _, c := range []struct {
		pattern, s string
		matches    bool
	}{
		{"", "", true}, {"", "a", false}, {"a", "a", true}, {"a", "ab", false},
		{"*", "", true}, {"*", "a/b", true}, {"a*", "a", true}, {"a*", "ba", false},
		{"*a", "ba", true}, {"*a", "ab", false}, {"a*a", "a", false}, {"a*a", "aa", true},
		{"a*b*c", "a1b2c", true}, {"a*b*c", "a1c2b", false}, {"*b*", "abc", true}, {"**", "x", true}, {"*aab", "aaab", true},
	} {
		t.Run(c.pattern+" "+c.s, func(t *testing.T) {
			NewWithT(t).Expect(fault.Glob(c.pattern, c.s)).To(Equal(c.matches))
		})
	}
}
