package main

import (
	"math"
	"testing"

	. "github.com/onsi/gomega"
)

func TestQuantile(t *testing.T) {
	g := NewWithT(t)
	var hundred []float64
	for i := 100; i >= 1; i-- {
		hundred = append(hundred, float64(i))
	}
	g.Expect(quantile(hundred, 0)).To(Equal(1.0))
	g.Expect(quantile(hundred, 0.5)).To(Equal(50.0))
	g.Expect(quantile(hundred, 0.99)).To(Equal(99.0))
	g.Expect(quantile(hundred, 1)).To(Equal(100.0))
	g.Expect(quantile([]float64{7}, 0.99)).To(Equal(7.0))
	g.Expect(math.IsNaN(quantile(nil, 0.5))).To(BeTrue())
	g.Expect(hundred[0]).To(Equal(100.0), "the input is not sorted in place")
}

func TestSpread(t *testing.T) {
	NewWithT(t).Expect(spreadOf([]float64{3, 1, 2})).To(Equal(spread{Median: 2, Least: 1, Most: 3}))
}
