package clustercache

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// A crowd of targets that nobody can reach waits for places of its own. With their timeouts of a second each, two places,
// and one for probes, a probe that had to queue behind them would come ten seconds late.
func TestProbesDoNotQueueBehindUnreachableTargets(t *testing.T) {
	h := start(t, Options{DialParallel: 2, ProbeParallel: 1, ProbeInterval: time.Second})
	var mu sync.Mutex
	var last time.Time
	var longest time.Duration
	probes := 0
	a := newAPIServer(t, newStore("uid-a"))
	a.setFault(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == identityPath {
			mu.Lock()
			defer mu.Unlock()
			if probes++; probes > 1 {
				longest = max(longest, time.Since(last))
			}
			last = time.Now()
		}
		return false
	})
	key := h.register("a", a.kubeconfig("token"))
	h.expectState(key, StateConnected)
	hanging := newAPIServer(t, newStore("uid-b"))
	hanging.setFault(hanging.hangAll)
	for i := range 20 {
		h.register(fmt.Sprint("hanging-", i), hanging.kubeconfig("token"))
	}
	h.Eventually(func() int { mu.Lock(); defer mu.Unlock(); return probes }).Should(BeNumerically(">=", 7))
	h.Expect(hanging.count("GET /version")).To(BeNumerically(">=", 4), "they are dialled all the time")
	mu.Lock()
	defer mu.Unlock()
	h.Expect(longest).To(BeNumerically("<", 2*time.Second), "twice the interval")
}
