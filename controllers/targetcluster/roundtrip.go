package targetcluster

import "time"

// roundTripSteps are what a round trip is rounded up to, in milliseconds.
var roundTripSteps = []int64{10, 20, 50, 100, 200, 500, 1000, 2000, 5000}

// coarseRoundTrip returns a round trip in coarse steps. What was stored before stays as long as it is not wrong by
// much, so that a target near the border of two steps does not change its status all the time.
func coarseRoundTrip(stored int64, measured time.Duration) int64 {
	ms := measured.Milliseconds()
	if measured <= 0 || stored > 0 && ms <= 2*stored && ms >= stored/5 {
		return stored
	}
	for _, step := range roundTripSteps {
		if ms <= step {
			return step
		}
	}
	return roundTripSteps[len(roundTripSteps)-1]
}
