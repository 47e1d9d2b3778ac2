package rig

import (
	"math"
	"testing"

	. "github.com/onsi/gomega"
)

const page = `# HELP waits How long.
# TYPE waits histogram
waits_bucket{target="a/a",le="0.001"} 90
waits_bucket{target="a/a",le="0.01"} 100
waits_bucket{target="a/a",le="+Inf"} 100
waits_bucket{target="b/b",le="0.001"} 0
waits_bucket{target="b/b",le="0.01"} 0
waits_bucket{target="b/b",le="+Inf"} 50
waits_count{target="a/a"} 100
busy{class="resources"} 7
busy{class="seed"} 1e+06
busy_workers{class="resources"} 1000
`

func TestPagesAreRead(t *testing.T) {
	g := NewWithT(t)
	of := func(name, value string) func(Labels) bool {
		return func(l Labels) bool { return l.Get(name) == value }
	}
	busy, err := Page{text: page}.Sum("busy", of("class", "resources"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(busy).To(Equal(7.0))
	waits, err := Page{text: page}.Histogram("waits", of("target", "a/a"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(waits).To(Equal(Histogram{0.001: 90, 0.01: 100, math.Inf(1): 100}))
	_, err = Page{text: "busy{class=\"resources\"} many\n"}.Sum("busy", of("class", "resources"))
	g.Expect(err).To(MatchError(ContainSubstring("busy")))
	_, err = Page{text: page}.Sum("busy", of("class", "garden"))
	g.Expect(err).To(MatchError(ContainSubstring("busy")), "it does not mean 0")
}

func TestQuantilesOfHistograms(t *testing.T) {
	g := NewWithT(t)
	h := Histogram{1: 90, 10: 100, math.Inf(1): 100}
	g.Expect(h.Quantile(0.45)).To(BeNumerically("~", 0.5))
	g.Expect(h.Quantile(0.95)).To(BeNumerically("~", 5.5))
	g.Expect(math.IsNaN(h.Since(h).Quantile(0.99))).To(BeTrue(), "there are none")
	later := Histogram{1: 90, 10: 100, math.Inf(1): 200}
	g.Expect(later.Since(h).Quantile(0.5)).To(Equal(math.Inf(1)), "longer than is measured")
	h.Add(later.Since(h))
	g.Expect(h).To(Equal(later))
}
