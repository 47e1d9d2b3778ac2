package clustercache

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/trellis-hub/trellis/hack/fleetsim/fault"
)

// onReads makes a server treat reads of single ConfigMaps differently.
func onReads(f func(w http.ResponseWriter, r *http.Request)) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/configmaps/one") {
			return false
		}
		f(w, r)
		return true
	}
}

func reads(a *apiServer) int { return a.count("GET /api/v1/namespaces/default/configmaps/one") }

// A target that answers probes and nothing else would have every call wait for its deadline, and hold the workers of
// all others.
func TestTargetThatAnswersNothingButProbesIsNotCalled(t *testing.T) {
	for name, hang := range map[string]func(a *apiServer) func(w http.ResponseWriter, r *http.Request){
		"it hangs": func(a *apiServer) func(http.ResponseWriter, *http.Request) {
			return func(_ http.ResponseWriter, r *http.Request) { a.hang(r) }
		},
		"it stops in the middle of its answers": func(a *apiServer) func(http.ResponseWriter, *http.Request) {
			return func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				_, _ = w.Write([]byte("{"))
				_ = http.NewResponseController(w).Flush()
				a.hang(r)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			h, a, key := connected(t, Options{Limits: func(ClusterKey) Limits { return Limits{Timeout: time.Second} }})
			a.store.put("configmaps", "default", "one", nil)
			r := h.watchConfigMaps(key)
			c, err := h.cache.GetMetadataClient(context.Background(), key)
			h.Expect(err).NotTo(HaveOccurred())
			a.setFault(onReads(hang(a)))
			for range 3 {
				err := get(c)
				h.Expect(err).To(MatchError(context.DeadlineExceeded))
				h.Expect(err).NotTo(MatchError(ErrBusy))
			}
			n := reads(a)
			for range 50 {
				err := get(c)
				h.Expect(err).To(MatchError(ErrBusy))
				h.Expect(err).To(MatchError(context.DeadlineExceeded))
			}
			h.Expect(reads(a)).To(Equal(n), "nothing was sent")
			h.Expect(h.state(key)).To(Equal(StateConnected))
			a.store.put("configmaps", "default", "two", nil)
			h.Eventually(r.names).Should(ConsistOf("one", "two"), "watches go on")

			a.setFault(nil)
			h.Eventually(func() error { return get(c) }).WithPolling(50*time.Millisecond).Should(Succeed(), "it recovers by itself")
			for range 10 {
				h.Expect(get(c)).To(Succeed())
			}
		})
	}
}

func TestSlowCallsAmongOthersBreakNothing(t *testing.T) {
	h, a, key := connected(t, Options{Limits: func(ClusterKey) Limits { return Limits{Timeout: 1500 * time.Millisecond} }})
	a.store.put("configmaps", "default", "one", nil)
	c, err := h.cache.GetMetadataClient(context.Background(), key)
	h.Expect(err).NotTo(HaveOccurred())
	var n atomic.Int32
	a.setFault(onReads(func(w http.ResponseWriter, r *http.Request) {
		if n.Add(1)%3 != 0 {
			a.hang(r)
		} else {
			writeStatus(w, http.StatusNotFound, "an answer")
		}
	}))
	for range 9 {
		h.Expect(get(c)).NotTo(MatchError(ErrBusy))
	}
}

func TestRetryAfterHoldsForAllCallsOfATarget(t *testing.T) {
	h, a, key := connected(t, Options{})
	other := newAPIServer(t, newStore("uid-b"))
	other.store.put("configmaps", "default", "one", nil)
	otherKey := h.register("b", other.kubeconfig("x"))
	h.expectState(otherKey, StateConnected)
	a.store.put("configmaps", "default", "one", nil)
	c, err := h.cache.GetMetadataClient(context.Background(), key)
	h.Expect(err).NotTo(HaveOccurred())
	d, err := h.cache.GetMetadataClient(context.Background(), otherKey)
	h.Expect(err).NotTo(HaveOccurred())

	var requests atomic.Int32
	a.setFault(onReads(func(w http.ResponseWriter, _ *http.Request) {
		if requests.Add(1) == 1 {
			w.Header().Set("Retry-After", "5")
			writeStatus(w, http.StatusTooManyRequests, "later")
			return
		}
		writeStatus(w, http.StatusNotFound, "an answer")
	}))
	began := time.Now()
	first := make(chan error, 1)
	go func() { first <- get(c) }()
	h.Eventually(requests.Load).Should(BeNumerically(">=", 1))
	h.Eventually(func() bool { return h.cache.target(key).throttle.Load().Paused() }).Should(BeTrue())
	_ = get(c)
	h.Expect(time.Since(began)).To(BeNumerically(">", 4900*time.Millisecond), "another call waits, too")
	h.Expect(<-first).To(HaveOccurred())
	h.Expect(get(d)).To(Succeed())
	h.Expect(h.cache.target(otherKey).throttle.Load().Paused()).To(BeFalse(), "another target has nothing to do with it")
}

func TestTargetThatOnlyThrottlesIsNotCalled(t *testing.T) {
	h, a, key := connected(t, Options{})
	c, err := h.cache.GetMetadataClient(context.Background(), key)
	h.Expect(err).NotTo(HaveOccurred())
	a.setFault(onReads(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "0")
		writeStatus(w, http.StatusTooManyRequests, "later")
	}))
	h.Eventually(func() error { return get(c) }).Should(MatchError(ErrBusy))
	h.Expect(reads(a)).To(Equal(10))
	h.Expect(h.state(key)).To(Equal(StateConnected))
}

// The same holds for a target that ends each call at once, or whose load balancer has no backend: retries would
// overload it.
func TestTargetThatFailsAllCallsButProbesIsNotCalled(t *testing.T) {
	for name, f := range map[string]fault.Fault{
		"it resets them":                   {Kind: fault.Reset},
		"it resets them in the middle":     {Kind: fault.Reset, After: 10},
		"its load balancer has no backend": {Kind: fault.Status, Code: http.StatusBadGateway},
		"it is not ready":                  {Kind: fault.Status, Code: http.StatusServiceUnavailable},
		"its storage does not answer it":   {Kind: fault.Status, Code: http.StatusGatewayTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			// No time passes for probes: one that a failed call starts may share the socket that is reset, and then
			// the connection is lost.
			h, target, key := simulated(t, Options{Clock: clocktesting.NewFakeClock(time.Now())})
			c := h.writer(key)
			h.Expect(write(t.Context(), c, "one", "x")).To(Succeed())
			f.Match = fault.Match{Resources: []string{"configmaps"}}
			mend := h.strike(target, f)
			h.Eventually(func() error { return write(t.Context(), c, "one", "y") }).Should(MatchError(ErrBusy))
			struck := target.Faults().List()[0].Struck
			h.Expect(struck).To(BeNumerically("~", 6, 4), "the client tries some again itself")
			for range 20 {
				h.Expect(write(t.Context(), c, "one", "y")).To(MatchError(And(ContainSubstring("the last one got"), Not(BeEmpty()))))
			}
			h.Expect(target.Faults().List()[0].Struck).To(Equal(struck), "nothing was sent")
			h.Expect(h.state(key)).To(Equal(StateConnected))
			mend()
			if f.Code == http.StatusBadGateway { // one of them is enough: it takes the pause
				h.Eventually(func() error { return write(t.Context(), c, "one", "y") }).WithPolling(50*time.Millisecond).Should(Succeed(), "it recovers by itself")
			}
		})
	}
}

// A webhook that fails concerns one kind of object.
func TestErrorsOfTheServerItselfBreakNothing(t *testing.T) {
	h, target, key := simulated(t, Options{})
	c := h.writer(key)
	h.strike(target, fault.Fault{Kind: fault.Status, Code: http.StatusInternalServerError, Match: fault.Match{Resources: []string{"configmaps"}}})
	for range 20 {
		h.Expect(write(t.Context(), c, "one", "x")).To(And(HaveOccurred(), Not(MatchError(ErrBusy))))
	}
}

// However many calls a connection takes with it, they say one thing.
func TestConnectionThatIsLostUnderManyCallsBreaksNothing(t *testing.T) {
	h, target, key := simulated(t, Options{Limits: func(ClusterKey) Limits { return Limits{QPS: -1} }})
	c := h.writer(key)
	mend := h.strike(target, fault.Fault{Kind: fault.Hang, Match: fault.Match{Resources: []string{"configmaps"}}})
	var calls sync.WaitGroup
	for i := range 20 {
		calls.Go(func() { _ = write(t.Context(), c, fmt.Sprint("cm-", i), "x") })
	}
	h.Eventually(func() int { return h.cache.Inspect()[0].InFlight }).Should(Equal(20))
	target.ResetConnections()
	mend()
	calls.Wait()
	h.Expect(write(t.Context(), c, "one", "x")).To(Succeed())
}
