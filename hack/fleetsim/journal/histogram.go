package journal

import (
	"fmt"
	"math"
	"math/bits"
	"time"
)

// A histogram counts durations in buckets that are a 32nd of a power of two wide, from a microsecond to more than an hour. So
// a quantile is at most 3 % too high, and a thousand targets can have one each.
type histogram struct {
	count    uint64
	max      time.Duration
	sum      time.Duration
	bucketed [octaves << subBits]uint32
}

const (
	subBits  = 5
	unitBits = 10 // what is shorter than 2^10 ns is in the first bucket
	octaves  = 32
)

func bucket(d time.Duration) int {
	n := uint64(max(d, 0)) >> (unitBits - subBits)
	if n < 1<<subBits {
		return 0
	}
	octave := bits.Len64(n) - 1 - subBits
	if octave >= octaves {
		return octaves<<subBits - 1
	}
	return octave<<subBits | int(n>>octave)&(1<<subBits-1)
}

// upper is the longest duration in a bucket. The last one has no end.
func upper(bucket int) time.Duration {
	if bucket == octaves<<subBits-1 {
		return math.MaxInt64
	}
	octave, sub := bucket>>subBits, bucket&(1<<subBits-1)
	return time.Duration((1<<subBits|sub)+1)<<(octave+unitBits-subBits) - 1
}

func (h *histogram) add(d time.Duration) {
	h.count++
	h.sum += d
	h.max = max(h.max, d)
	h.bucketed[bucket(d)]++
}

func (h *histogram) merge(other *histogram) {
	if other == nil {
		return
	}
	h.count += other.count
	h.sum += other.sum
	h.max = max(h.max, other.max)
	for i, n := range other.bucketed {
		h.bucketed[i] += n
	}
}

// quantile returns a duration that this share of the samples does not exceed.
func (h *histogram) quantile(q float64) time.Duration {
	rank := uint64(q*float64(h.count) + 0.999999)
	var seen uint64
	for i, n := range h.bucketed {
		if seen += uint64(n); seen >= rank && seen > 0 {
			return min(upper(i), h.max)
		}
	}
	return h.max
}

// Quantiles of durations, with an error of at most 3 %, but for Max, which is exact. All are zero if there are no samples.
type Quantiles struct {
	Samples uint64        `json:"samples"`
	Mean    time.Duration `json:"mean"`
	P50     time.Duration `json:"p50"`
	P90     time.Duration `json:"p90"`
	P99     time.Duration `json:"p99"`
	Max     time.Duration `json:"max"`
}

func (h *histogram) quantiles() Quantiles {
	if h == nil || h.count == 0 {
		return Quantiles{}
	}
	return Quantiles{
		Samples: h.count, Mean: h.sum / time.Duration(h.count),
		P50: h.quantile(0.5), P90: h.quantile(0.9), P99: h.quantile(0.99), Max: h.max,
	}
}

// String gives the figures in one line.
func (q Quantiles) String() string {
	return fmt.Sprintf("%d samples, p50 %s, p90 %s, p99 %s, max %s", q.Samples, rounded(q.P50), rounded(q.P90), rounded(q.P99), rounded(q.Max))
}
