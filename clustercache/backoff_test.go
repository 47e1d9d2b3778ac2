package clustercache

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	clocktesting "k8s.io/utils/clock/testing"
)

// fleet registers targets at one server.
func (h *hub) fleet(clock *clocktesting.FakeClock, a *apiServer, n int) []ClusterKey {
	h.t.Helper()
	keys := make([]ClusterKey, n)
	for i := range keys {
		keys[i] = h.register(fmt.Sprint("target-", i), a.kubeconfig("x"))
	}
	h.pass(clock, 0, keys...) // a timer of no time at all waits for that, too
	return keys
}

// pass lets time pass for the loops of targets, one of which may be about to set its timer by the time before. A target
// that was deleted meanwhile has no loop any longer.
func (h *hub) pass(clock *clocktesting.FakeClock, d time.Duration, keys ...ClusterKey) {
	h.t.Helper()
	clock.Step(d)
	for _, key := range keys {
		if target := h.cache.target(key); target != nil {
			target.poke()
		}
	}
}

func TestPausesBetweenAttemptsDoubleUpToALimit(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Now())
	h := start(t, Options{
		Clock: clock,
		Dial:  DialOptions{RetryMax: 20 * time.Second, ConnectTimeout: patience},
		Probe: ProbeOptions{Timeout: patience},
	})
	a := newAPIServer(t, newStore("uid-a"))
	a.setFault(answer(http.StatusServiceUnavailable, ""))
	key := h.fleet(clock, a, 1)[0]
	pauses := []int{1, 2, 4, 8, 16, 20, 20}
	for i, seconds := range pauses {
		most := time.Duration(seconds) * time.Second
		h.Eventually(func() time.Time { return h.status(key).NextAttempt }).Should(BeTemporally(">", clock.Now()), "attempt %d", i)
		pause := h.status(key).NextAttempt.Sub(clock.Now())
		h.Expect(pause).To(And(BeNumerically("<=", most), BeNumerically(">=", most*3/4)), "after attempt %d", i)
		h.Expect(a.count("GET /version")).To(Equal(i+1), "there is one attempt for each pause")
		h.pass(clock, pause, key)
	}
	h.Eventually(func() int { return a.count("GET /version") }).Should(Equal(len(pauses) + 1))

	// It is back: what is lost later is tried soon again.
	a.setFault(nil)
	h.Eventually(func() time.Time { return h.status(key).NextAttempt }).Should(BeTemporally(">", clock.Now()))
	h.pass(clock, 20*time.Second, key)
	h.expectState(key, StateConnected)
}

// Targets that are down together do not dial together. That all of them are in one half of the time is one case in
// 2^23.
func TestAttemptsOfManyTargetsAreSpread(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Now())
	h := start(t, Options{Clock: clock, Dial: DialOptions{ConnectRate: 1000}, Probe: ProbeOptions{Timeout: patience}})
	a := newAPIServer(t, newStore("uid-a"))
	a.setFault(answer(http.StatusServiceUnavailable, ""))
	keys := h.fleet(clock, a, 24)
	early := 0
	for _, key := range keys {
		h.Eventually(func() time.Time { return h.status(key).NextAttempt }).Should(BeTemporally(">", clock.Now()))
		if h.status(key).NextAttempt.Sub(clock.Now()) <= retryMin*7/8 {
			early++
		}
	}
	h.Expect(early).To(And(BeNumerically(">", 0), BeNumerically("<", len(keys))), "of %d", len(keys))
	asked := func() int { return a.count("GET /version") }
	h.Expect(asked()).To(Equal(len(keys)))
	h.pass(clock, retryMin*7/8, keys...)
	h.Eventually(asked).Should(Equal(len(keys) + early))
	h.pass(clock, retryMin/8, keys...)
	h.Eventually(asked).Should(Equal(2 * len(keys)))
}

// Nor are targets that were connected in one moment probed in one.
func TestProbesOfManyTargetsAreSpread(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Now())
	h := start(t, Options{
		Clock: clock,
		Dial:  DialOptions{ConnectRate: 1000, ConnectTimeout: patience},
		Probe: ProbeOptions{Interval: 8 * time.Second, Timeout: patience},
	})
	a := newAPIServer(t, newStore("uid-a"))
	keys := h.fleet(clock, a, 24)
	for _, key := range keys {
		h.expectState(key, StateConnected)
	}
	before := a.count("GET " + identityPath)
	probes := func() int { return a.count("GET "+identityPath) - before }
	h.pass(clock, 7*time.Second, keys...)
	h.Eventually(probes).Should(BeNumerically(">", 0), "some are due early")
	h.Expect(probes()).To(BeNumerically("<", len(keys)), "and some are not")
	h.pass(clock, time.Second, keys...)
	h.Eventually(probes).Should(Equal(len(keys)))
}
