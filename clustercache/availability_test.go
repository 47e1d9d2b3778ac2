package clustercache

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"

	"github.com/trellis-hub/trellis/clustercache/internal/transport"
)

// get reads a ConfigMap through a client that was handed out before.
func get(c metadata.Interface) error {
	_, err := c.Resource(configMapResource).Namespace("default").Get(context.Background(), "one", getOptions)
	return err
}

func TestTargetThatGoesAwayAndComesBack(t *testing.T) {
	for name, breakIt := range map[string]func(*apiServer){
		"hangs":               func(a *apiServer) { a.setFault(a.hangAll) },
		"answers 503":         func(a *apiServer) { a.setFault(answer(http.StatusServiceUnavailable, "")) },
		"takes no credential": func(a *apiServer) { a.setTokens(map[string]string{}) },
	} {
		t.Run(name, func(t *testing.T) {
			h, a, key := connected(t, Options{})
			a.store.put("configmaps", "default", "one", nil)
			a.store.put("configmaps", "default", "two", nil)
			r := h.watchConfigMaps(key)
			held, err := h.cache.GetMetadataClient(context.Background(), key)
			h.Expect(err).NotTo(HaveOccurred())
			h.Expect(get(held)).To(Succeed())
			h.Expect(a.count("GET /api/v1/namespaces/default/configmaps/one")).To(Equal(1))

			breakIt(a)
			status := h.expectState(key, StateDisconnected)
			h.expectEvent(key, EventDisconnected)
			h.Expect(status.Message).NotTo(BeEmpty())
			sent := a.count("GET /api/v1/namespaces/default/configmaps/one")
			h.Expect(get(held)).To(MatchError(ErrClusterNotConnected))
			h.Expect(a.count("GET /api/v1/namespaces/default/configmaps/one")).To(Equal(sent), "calls fail at once, without being sent")
			_, found, synced := h.lookup(key, "cm", types.NamespacedName{Namespace: "default", Name: "one"})
			h.Expect(found).To(BeTrue(), "what was known is kept")
			h.Expect(synced).To(BeFalse(), "and not relied upon")

			a.store.delete("configmaps", "default", "two")
			a.store.put("configmaps", "default", "three", nil)
			a.setFault(nil)
			a.setTokens(nil)
			h.expectState(key, StateConnected)
			h.expectEvent(key, EventConnected)
			h.Eventually(r.names).Should(ConsistOf("one", "three"))
			h.Eventually(r.syncs).Should(Equal(2))
			h.Expect(r.faults).To(BeEmpty())
			r.mu.Lock()
			h.Expect(r.deletes).To(ConsistOf(types.NamespacedName{Namespace: "default", Name: "two"}))
			h.Expect(r.updates[types.NamespacedName{Namespace: "default", Name: "one"}]).To(Equal(1), "what did not change is not reported again")
			r.mu.Unlock()
		})
	}
}

func TestServerThatIsGoneIsNoticedAtOnce(t *testing.T) {
	h, a, key := connected(t, Options{Probe: ProbeOptions{Interval: time.Hour}})
	h.watchConfigMaps(key)
	_ = a.server.Listener.Close()
	a.cut()
	h.expectState(key, StateDisconnected) // without waiting for a probe's turn
}

func TestLostConnectionToAHealthyServerIsNoOutage(t *testing.T) {
	h, a, key := connected(t, Options{})
	h.expectEvent(key, EventConnected)
	r := h.watchConfigMaps(key)
	for range 5 {
		a.cut()
		time.Sleep(50 * time.Millisecond)
	}
	a.store.put("configmaps", "default", "one", nil)
	h.Eventually(r.names).Should(ConsistOf("one"))
	h.Expect(h.status(key).Connection).To(BeEquivalentTo(1))
	h.Expect(h.state(key)).To(Equal(StateConnected))
}

func TestSingleFailedProbeIsNoOutage(t *testing.T) {
	h, a, key := connected(t, Options{})
	var failed atomic.Bool
	a.setFault(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == identityPath && !failed.Swap(true) {
			writeStatus(w, http.StatusInternalServerError, "once")
			return true
		}
		return false
	})
	h.Eventually(failed.Load).Should(BeTrue())
	h.Eventually(func() bool {
		health := h.cache.GetHealthCheckingState(context.Background(), key)
		return health.ConsecutiveFailures == 0 && health.LastProbeSuccessTime.After(h.status(key).Since)
	}).Should(BeTrue())
	h.Expect(h.status(key).Connection).To(BeEquivalentTo(1))
}

func TestUnauthorizedCallIsLookedIntoAtOnce(t *testing.T) {
	h, a, key := connected(t, Options{Probe: ProbeOptions{Interval: time.Hour}})
	held, err := h.cache.GetMetadataClient(context.Background(), key)
	h.Expect(err).NotTo(HaveOccurred())
	time.Sleep(probePause)
	a.setTokens(map[string]string{})
	h.Expect(get(held)).NotTo(Succeed())
	h.Expect(h.expectState(key, StateDisconnected).Reason).To(Equal(ReasonUnauthorized))
}

func TestNewVersionIsNoticed(t *testing.T) {
	h, a, key := connected(t, Options{Probe: ProbeOptions{Interval: 10 * time.Millisecond}})
	a.mu.Lock()
	a.version = "v1.37.0"
	a.mu.Unlock()
	h.Eventually(func() string { return h.status(key).KubernetesVersion }).Should(Equal("v1.37.0"))
}

func TestCallsHaveADeadline(t *testing.T) {
	h, a, key := connected(t, Options{Limits: func(ClusterKey) Limits { return Limits{Timeout: 200 * time.Millisecond} }})
	held, err := h.cache.GetMetadataClient(context.Background(), key)
	h.Expect(err).NotTo(HaveOccurred())
	a.setFault(a.hangWatches)
	a.setFault(func(_ http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, "/one") {
			a.hang(r)
			return true
		}
		return false
	})
	err = get(held)
	h.Expect(err).To(MatchError(context.DeadlineExceeded))
	h.Expect(err).To(MatchError(ContainSubstring(transport.Unreachable)))
	h.Expect(h.state(key)).To(Equal(StateConnected), "the probe finds that the target is fine")
}

func TestDownTargetIsDialledAtABoundedRate(t *testing.T) {
	h := start(t, Options{Dial: DialOptions{RetryMax: 100 * time.Millisecond}})
	a := newAPIServer(t, newStore("uid-a"))
	a.setFault(answer(http.StatusServiceUnavailable, ""))
	key := h.register("a", a.kubeconfig("x"))
	h.expectState(key, StateDisconnected)
	before, began := a.count("GET /version"), time.Now()
	h.Eventually(func() int { return a.count("GET /version") - before }).Should(BeNumerically(">=", 8), "it is dialled")
	h.Expect(a.count("GET /version")-before).To(BeNumerically("<=", 2+int(time.Since(began)/(75*time.Millisecond))), "with a jitter of a quarter")
}
