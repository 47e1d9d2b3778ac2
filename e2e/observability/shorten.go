package observability

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"time"

	"github.com/prometheus/common/model"
)

const (
	// factor is by what times are divided: that of the usual interval between scrapes and the interval of the test.
	factor = 30
	// longest and shortest are the bounds of the result.
	longest, shortest = 2 * time.Minute, 2 * time.Second
)

// lags are thresholds of the time for which a change has waited. A test can set other times back, but not this one.
var lags = regexp.MustCompile(`(trellis_target_revision_lag_seconds\{[^}]*\}\)? > (?:bool )?)([0-9]+)\b`)

// times are what a rules file says of time: how long an alert waits, ranges, and offsets.
var times = regexp.MustCompile(`((?:for|keep_firing_for): |\[|offset )([0-9]+[smhd])\b`)

// shorten divides all times of a rules file.
func shorten(rules []byte) ([]byte, error) {
	var failed error
	short := times.ReplaceAllFunc(rules, func(found []byte) []byte {
		parts := times.FindSubmatch(found)
		d, err := model.ParseDuration(string(parts[2]))
		if err != nil {
			failed = fmt.Errorf("shortening %s: %w", found, err)
			return found
		}
		t := min(longest, max(shortest, time.Duration(d)/factor))
		if string(parts[1]) == "[" {
			t = max(t, 4*shortest) // a range needs samples enough for a rate
		}
		return fmt.Appendf(nil, "%s%s", parts[1], model.Duration(t))
	})
	short = lags.ReplaceAllFunc(short, func(found []byte) []byte {
		parts := lags.FindSubmatch(found)
		seconds, err := strconv.Atoi(string(parts[2]))
		failed = errors.Join(failed, err)
		return fmt.Appendf(nil, "%s%d", parts[1], seconds/factor)
	})
	return short, failed
}
