package clustercache

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// hangAfterVersion is a fault of targets that answer the first call and then hang. It counts the requests that hang.
func hangAfterVersion(a *apiServer, hanging *atomic.Int32) func(http.ResponseWriter, *http.Request) bool {
	return func(_ http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, "/version") {
			return false
		}
		hanging.Add(1)
		defer hanging.Add(-1)
		a.hang(r)
		return true
	}
}

// Hundreds of targets that answer the first call and then hang hold only the places of their own namespace.
func TestTargetConnectsBesideFiveHundredThatHangInTheSecondStep(t *testing.T) {
	h := start(t, Options{
		Dial:  DialOptions{ConnectTimeout: time.Minute, ConnectRate: 1000},
		Probe: ProbeOptions{Timeout: time.Minute},
	})
	bad, good := newAPIServer(t, newStore("uid-a")), newAPIServer(t, newStore("uid-b"))
	var hanging atomic.Int32
	bad.setFault(hangAfterVersion(bad, &hanging))
	content := bad.kubeconfig("token")
	for i := range 500 {
		h.secrets.set(registrationSecret(ClusterKey{Namespace: "hostile", Name: fmt.Sprint("t-", i)}, content))
	}
	h.Eventually(hanging.Load).WithTimeout(2*time.Minute).Should(BeNumerically(">=", 64), "more than there are places")
	h.expectState(h.register("a", good.kubeconfig("token")), StateConnected)
	h.Expect(hanging.Load()).To(BeNumerically(">=", 64), "they hang all the time")
	for _, status := range h.cache.List("hostile") { // a server that is busy ends some of the connections
		h.Expect(status.State).To(Or(Equal(StateConnecting), Equal(StateDisconnected)))
	}
}

// The same in the first step.
func TestTargetConnectsBesideThoseThatHangInTheFirstStep(t *testing.T) {
	h := start(t, Options{Dial: DialOptions{Parallel: 8, ConnectRate: 1000}, Probe: ProbeOptions{Timeout: time.Minute}})
	bad, good := newAPIServer(t, newStore("uid-a")), newAPIServer(t, newStore("uid-b"))
	bad.setFault(bad.hangAll)
	for i := range 50 {
		h.registerIn("hostile", fmt.Sprint("t-", i), bad.kubeconfig("token"))
	}
	h.Eventually(h.cache.dials.Held).Should(Equal(int64(6)), "two places are left")
	h.Eventually(h.cache.dials.Waiting).Should(Equal(44))
	h.expectState(h.register("a", good.kubeconfig("token")), StateConnected)
	h.Expect(h.cache.dials.Held()).To(Equal(int64(6)))
}

// Targets that hang in the second step repeatedly wait longer each time, like unreachable ones, and in a separate
// queue.
func TestTargetThatHangsInTheSecondStepIsLeftAloneForLonger(t *testing.T) {
	h := start(t, Options{Dial: DialOptions{ConnectTimeout: 50 * time.Millisecond, RetryMax: time.Hour}})
	bad := newAPIServer(t, newStore("uid-a"))
	var hanging atomic.Int32
	bad.setFault(hangAfterVersion(bad, &hanging))
	key := h.register("a", bad.kubeconfig("token"))
	pause := func() time.Duration { return time.Until(h.status(key).NextAttempt) }
	h.Eventually(pause).Should(BeNumerically(">", 2*time.Second), "the third pause has 3 s at least")
	h.Expect(h.status(key).Reason).To(Equal(ReasonUnreachable))
	h.Expect(bad.count("GET /version")).To(BeNumerically(">=", 3))
}
