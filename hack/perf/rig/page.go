package rig

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/trellis-hub/trellis/hack/testbed"
)

// Page is what the hub says of its metrics at a moment. To ask once and read several of them is cheaper, and they belong together.
type Page struct {
	At   time.Time
	text string
}

// Page asks the hub.
func (r *Rig) Page(ctx context.Context) (Page, error) {
	at := time.Now()
	text, err := r.Hub.Get(ctx, r.Hub.MetricsURL())
	return Page{At: at, text: string(text)}, err
}

// Labels of a series, with its name, as the exposition format has them.
type Labels string

// Get returns the value of a label.
func (l Labels) Get(name string) string { return testbed.Label(string(l), name) }

// Sum adds up those series of a counter or gauge with labels that are wanted. That there is none is an error,
// since it does not mean 0.
func (p Page) Sum(name string, wanted func(Labels) bool) (sum float64, err error) {
	none := true
	err = p.series(name, wanted, func(_ Labels, value float64) error {
		sum, none = sum+value, false
		return nil
	})
	if err == nil && none {
		err = fmt.Errorf("the hub does not export the metric %s", name)
	}
	return sum, err
}

// Histogram adds up those series of a histogram that are wanted.
func (p Page) Histogram(name string, wanted func(Labels) bool) (Histogram, error) {
	h := Histogram{}
	err := p.series(name+"_bucket", wanted, func(labels Labels, value float64) error {
		bound, err := strconv.ParseFloat(labels.Get("le"), 64)
		h[bound] += value
		return err
	})
	return h, err
}

func (p Page) series(name string, wanted func(Labels) bool, f func(Labels, float64) error) error {
	var failed error
	err := testbed.EachSeries([]byte(p.text), name, func(series string, value float64) {
		if labels := Labels(series); wanted(labels) {
			failed = errors.Join(failed, f(labels, value))
		}
	})
	if err = errors.Join(err, failed); err != nil {
		return fmt.Errorf("reading the metric %s of the hub: %w", name, err)
	}
	return nil
}

// Histogram is how many values there were up to each bound. The last bound is infinite.
type Histogram map[float64]float64

// Add adds the values of another one with the same bounds.
func (h Histogram) Add(other Histogram) {
	for bound, n := range other {
		h[bound] += n
	}
}

// Since is what came since an earlier look.
func (h Histogram) Since(before Histogram) Histogram {
	out := maps.Clone(h)
	for bound, n := range before {
		out[bound] -= n
	}
	return out
}

// Quantile is the value that at most the fraction q of all values does not exceed, as if those between two bounds were spread evenly. It is
// not a number without values, and infinite beyond the last bound but one.
func (h Histogram) Quantile(q float64) float64 {
	all := h[math.Inf(1)]
	if all == 0 {
		return math.NaN()
	}
	rank, lower, below := q*all, 0.0, 0.0
	for _, bound := range slices.Sorted(maps.Keys(h)) {
		if n := h[bound]; n >= rank && n > below {
			return lower + (bound-lower)*(rank-below)/(n-below)
		}
		lower, below = bound, h[bound]
	}
	return math.Inf(1)
}
