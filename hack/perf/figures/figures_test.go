package figures_test

import (
	"math"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/trellis-hub/trellis/hack/perf/figures"
)

func TestQuantile(t *testing.T) {
	g := NewWithT(t)
	var hundred []float64
	for i := 100; i >= 1; i-- {
		hundred = append(hundred, float64(i))
	}
	g.Expect(figures.Quantile(hundred, 0)).To(Equal(1.0))
	g.Expect(figures.Quantile(hundred, 0.5)).To(Equal(50.0))
	g.Expect(figures.Quantile(hundred, 0.99)).To(Equal(99.0))
	g.Expect(figures.Quantile(hundred, 1)).To(Equal(100.0))
	g.Expect(figures.Quantile([]float64{7}, 0.99)).To(Equal(7.0))
	g.Expect(math.IsNaN(figures.Quantile(nil, 0.5))).To(BeTrue())
	g.Expect(hundred[0]).To(Equal(100.0), "the input is not sorted in place")
}

func TestSpread(t *testing.T) {
	NewWithT(t).Expect(figures.SpreadOf([]float64{3, 1, 2})).To(Equal(figures.Spread{Median: 2, Least: 1, Most: 3}))
}

func TestSlope(t *testing.T) {
	for _, test := range []struct {
		name   string
		values []float64
		slope  float64
	}{
		{"flat", []float64{5, 5, 5}, 0},
		{"from 90 to 110", []float64{90, 100, 110}, 0.2},
		{"noise around a mean", []float64{9, 11, 11, 9}, 0},
		{"falling", []float64{30, 20, 10}, -1},
		{"one value is not enough", []float64{7}, 0},
		{"nothing at all", []float64{0, 0}, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			NewWithT(t).Expect(figures.Slope(test.values)).To(BeNumerically("~", test.slope, 1e-9))
		})
	}
}
