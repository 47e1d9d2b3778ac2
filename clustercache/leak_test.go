package clustercache

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// settle returns the number of goroutines once it stands still.
func settle() int {
	last, same := runtime.NumGoroutine(), 0
	for range 200 {
		time.Sleep(20 * time.Millisecond)
		if n := runtime.NumGoroutine(); n == last {
			if same++; same == 10 {
				break
			}
		} else {
			last, same = n, 0
		}
	}
	return last
}

// The libraries below leak a goroutine for each metadata informer that is stopped during an event, and two for each
// watch of a target that hangs before its first list. Neither way is used here, and this shows it.
func TestConnectWatchAndRemoveLeavesNoGoroutine(t *testing.T) {
	cycles := 100
	for name, prepare := range map[string]func(*apiServer){
		"watches that work":          func(*apiServer) {},
		"watches that hang":          func(a *apiServer) { a.setFault(a.hangWatches) },
		"watches that are throttled": func(a *apiServer) { a.setFault(answer(429, "/configmaps")) },
	} {
		t.Run(name, func(t *testing.T) {
			h := start(t, Options{})
			a := newAPIServer(t, newStore("uid-a"))
			prepare(a)
			stop := make(chan struct{})
			defer close(stop)
			go func() { // events are always under way
				for i := 0; ; i++ {
					select {
					case <-stop:
						return
					case <-time.After(time.Millisecond):
						a.store.put("configmaps", "default", fmt.Sprint("cm-", i%10), nil)
						a.store.put("secrets", "default", fmt.Sprint("s-", i%10), nil)
					}
				}
			}()
			cycle := func() {
				key := h.register("a", a.kubeconfig("x"))
				h.expectState(key, StateConnected)
				for _, kind := range []string{"ConfigMap", "Secret"} {
					for _, metadataOnly := range []bool{true, false} {
						h.watch(key, Watcher{
							Name: fmt.Sprint(kind, metadataOnly), Kind: schema.GroupVersionKind{Version: "v1", Kind: kind}, MetadataOnly: metadataOnly,
						})
					}
				}
				requests := a.count("GET /api/v1/configmaps")
				h.Eventually(func() int { return a.count("GET /api/v1/configmaps") }).Should(BeNumerically(">", requests-1))
				h.unregister(key)
				h.Eventually(func() bool { _, exists := h.cache.GetStatus(key); return exists }).Should(BeFalse())
			}
			cycle()
			h.Eventually(a.sockets).Should(BeZero())
			before := settle()
			for range cycles {
				cycle()
			}
			h.Eventually(a.sockets).Should(BeZero())
			h.Eventually(settle).Should(BeNumerically("<=", before+2))
		})
	}
}

func TestDisconnectAndReconnectLeavesNoGoroutine(t *testing.T) {
	h, a, key := connected(t, Options{
		Dial:  DialOptions{RetryMax: 20 * time.Millisecond, RefusedRetryMax: 20 * time.Millisecond},
		Probe: ProbeOptions{Interval: 20 * time.Millisecond, Timeout: 100 * time.Millisecond, Failures: 1},
	})
	r := h.watchConfigMaps(key)
	cycle := func() {
		syncs := r.syncs()
		a.setTokens(map[string]string{})
		h.expectState(key, StateDisconnected)
		a.setTokens(nil)
		h.cache.Recheck(key)
		h.expectState(key, StateConnected)
		h.Eventually(r.syncs).Should(BeNumerically(">", syncs))
	}
	cycle()
	before := settle()
	for range 100 {
		cycle()
	}
	h.Eventually(settle).Should(BeNumerically("<=", before+2))
	h.Expect(a.sockets()).To(BeNumerically("<=", 2))
}
