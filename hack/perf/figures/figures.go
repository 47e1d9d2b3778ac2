package figures

import (
	"math"
	"os"
	"slices"
	"strings"
	"time"
)

// Milliseconds is how durations are written and printed.
func Milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// Quantile returns the smallest value that at least the fraction q of all values does not exceed; NaN without values.
func Quantile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[max(0, int(math.Ceil(q*float64(len(sorted))))-1)]
}

// Median is the quantile in the middle.
func Median(values []float64) float64 { return Quantile(values, 0.5) }

// Spread is a figure over several runs.
type Spread struct {
	Median float64 `json:"median"`
	Least  float64 `json:"least"`
	Most   float64 `json:"most"`
}

// SpreadOf condenses the values of several runs.
func SpreadOf(values []float64) Spread {
	return Spread{Median: Median(values), Least: Quantile(values, 0), Most: Quantile(values, 1)}
}

// Latencies are the figures of one run, in milliseconds.
type Latencies struct {
	P50 float64 `json:"p50ms"`
	P99 float64 `json:"p99ms"`
	Max float64 `json:"maxms"`
}

// LatenciesOf condenses the samples of one run.
func LatenciesOf(values []float64) Latencies {
	return Latencies{P50: Median(values), P99: Quantile(values, 0.99), Max: Quantile(values, 1)}
}

// OverRuns condenses one figure of all runs.
func OverRuns(runs []Latencies, figure func(Latencies) float64) Spread {
	values := make([]float64, 0, len(runs))
	for _, r := range runs {
		values = append(values, figure(r))
	}
	return SpreadOf(values)
}

// Slope is the change of values from the first to the last along a straight line laid through them, as a fraction of their mean.
// Zero for less than two values, or a mean of zero.
func Slope(values []float64) float64 {
	n := float64(len(values))
	if n < 2 {
		return 0
	}
	var mean, covariance, variance float64
	for _, v := range values {
		mean += v / n
	}
	if mean == 0 {
		return 0
	}
	for i, v := range values {
		x := float64(i) - (n-1)/2
		covariance += x * (v - mean)
		variance += x * x
	}
	return covariance / variance * (n - 1) / mean
}

// Load is how busy the machine is, as Linux says it; empty where it does not.
func Load() string {
	content, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(content))
}

// LoadOfMinute is the first word of Load: the average of the last minute.
func LoadOfMinute(load string) string {
	word, _, _ := strings.Cut(load, " ")
	return word
}
