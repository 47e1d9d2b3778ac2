package care

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Check is what the check behind a condition says now.
type Check struct {
	// Status is what the condition becomes if that lasts.
	Status          metav1.ConditionStatus
	Reason, Message string
	// Failing is the reason until then.
	Failing string
	// AtOnce is true if there is nothing to wait for.
	AtOnce bool
}

// State is what a condition becomes.
type State struct {
	Status          metav1.ConditionStatus
	Reason, Message string
	// Since is when the check began to fail. Zero unless it fails for less than its threshold.
	Since time.Time
	// Left is how long it may continue failing. Zero unless Since is set.
	Left time.Duration
}

// Advance returns what a condition becomes by a check. old is what it was, nil if there was none or if it only says
// that the check could not run, and since when its check began to fail, zero if it did not or if it has failed for
// longer than its threshold.
func Advance(old *metav1.Condition, since time.Time, check Check, threshold time.Duration, now time.Time) State {
	settled := State{Status: check.Status, Reason: check.Reason, Message: check.Message}
	if check.Status == metav1.ConditionTrue || check.AtOnce || threshold <= 0 {
		return settled
	}
	held, holds := hold(old, !since.IsZero(), check.Status)
	if !holds {
		return settled
	}
	if since.IsZero() || since.Sub(now) > time.Second { // the latter by a clock that was put back
		since = now.Add(time.Second - 1).Truncate(time.Second)
	}
	left := threshold - now.Sub(since)
	if left <= 0 {
		return settled
	}
	return State{
		Status: held, Reason: check.Failing, Since: since, Left: left,
		Message: fmt.Sprintf("failing since %s, which counts after %s: %s", since.UTC().Format(time.RFC3339), threshold,
			check.Message),
	}
}

// hold returns the status that a condition has while its check fails for less than the threshold, and false if there is
// nothing to wait for. failing reports whether it is waiting already.
func hold(old *metav1.Condition, failing bool, now metav1.ConditionStatus) (metav1.ConditionStatus, bool) {
	switch {
	case old == nil:
		return metav1.ConditionUnknown, true
	case old.Status == metav1.ConditionTrue, old.Status == metav1.ConditionFalse && now == metav1.ConditionUnknown:
		return old.Status, true
	default:
		return old.Status, failing && old.Status == metav1.ConditionUnknown
	}
}
