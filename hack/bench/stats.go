package main

import (
	"math"
	"slices"
	"time"
)

// milliseconds is how durations are written and printed.
func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// quantile returns the smallest value that at least the fraction q of all values does not exceed; NaN without values.
func quantile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[max(0, int(math.Ceil(q*float64(len(sorted))))-1)]
}

// median is the quantile in the middle.
func median(values []float64) float64 { return quantile(values, 0.5) }

// spread is a figure over several runs.
type spread struct {
	Median float64 `json:"median"`
	Least  float64 `json:"least"`
	Most   float64 `json:"most"`
}

func spreadOf(values []float64) spread {
	return spread{Median: median(values), Least: quantile(values, 0), Most: quantile(values, 1)}
}

// latencies are the figures of one run.
type latencies struct {
	P50 float64 `json:"p50ms"`
	P99 float64 `json:"p99ms"`
	Max float64 `json:"maxms"`
}

func latenciesOf(values []float64) latencies {
	return latencies{P50: median(values), P99: quantile(values, 0.99), Max: quantile(values, 1)}
}

// overRuns condenses one figure of all runs.
func overRuns(runs []latencies, figure func(latencies) float64) spread {
	values := make([]float64, 0, len(runs))
	for _, r := range runs {
		values = append(values, figure(r))
	}
	return spreadOf(values)
}
