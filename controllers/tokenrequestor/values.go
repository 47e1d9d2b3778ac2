package tokenrequestor

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"time"
)

// Times of renewal.
const (
	// maxLifetime is how long a token is used at most, however long it is valid.
	maxLifetime = 24 * time.Hour
	// renewPercent is how much of its lifetime a token is used, jitterFactor how much longer at most.
	renewPercent = 80
	jitterFactor = 0.05
	// minRenewal is how soon a token is renewed at the earliest, whatever the clocks say.
	minRenewal = time.Minute
)

// renewIn returns how long a token is used that expires at a time.
func renewIn(now, expiry time.Time, jitter func(time.Duration, float64) time.Duration) time.Duration {
	lifetime := max(0, min(expiry.Sub(now), maxLifetime))
	return max(minRenewal, jitter(lifetime*renewPercent/100, jitterFactor))
}

// without returns data without some keys.
func without(data map[string][]byte, keys ...string) map[string][]byte {
	left := maps.Clone(data)
	for _, key := range keys {
		delete(left, key)
	}
	return left
}

// dataChanges returns what a merge patch says of data.
func dataChanges(before, after map[string][]byte) map[string]any {
	changes := map[string]any{}
	for key := range before {
		if _, stays := after[key]; !stays {
			changes[key] = nil
		}
	}
	for key, value := range after {
		if was, has := before[key]; !has || !bytes.Equal(was, value) {
			changes[key] = value
		}
	}
	return changes
}

// withoutFinalizer returns finalizers without the one of old versions, and whether that was among them.
func withoutFinalizer(finalizers []string) (kept []string, has bool) {
	if !slices.Contains(finalizers, LegacyFinalizer) {
		return finalizers, false
	}
	kept = []string{}
	for _, finalizer := range finalizers {
		if finalizer != LegacyFinalizer {
			kept = append(kept, finalizer)
		}
	}
	return kept, true
}

// redactedError is an error of a target without a token that the target was sent or sent itself.
type redactedError struct {
	error
	message string
}

// Error implements error.
func (e *redactedError) Error() string { return e.message }

// Unwrap is for errors.Is and errors.As.
func (e *redactedError) Unwrap() error { return e.error }

func redact(err error, token string) error {
	if message := err.Error(); token != "" && strings.Contains(message, token) {
		return &redactedError{err, strings.ReplaceAll(message, token, "[token]")}
	}
	return err
}
