package clustercache

import (
	"net/http"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// closing has a server speak HTTP/1.1 and close each connection after one answer, as a proxy without keep-alive does.
// It returns when the server was asked what identifies the cluster, as each probe does.
func closing(a *apiServer) (probed func() []time.Time) {
	config := a.serving.Load().Clone()
	config.NextProtos = []string{"http/1.1"}
	a.serving.Store(config)
	var mu sync.Mutex
	var times []time.Time
	a.setFault(func(w http.ResponseWriter, r *http.Request) bool {
		w.Header().Set("Connection", "close")
		if r.URL.Path == identityPath {
			mu.Lock()
			defer mu.Unlock()
			times = append(times, time.Now())
		}
		return false
	})
	return func() []time.Time {
		mu.Lock()
		defer mu.Unlock()
		return append([]time.Time(nil), times...)
	}
}

// read reads an object, which takes a socket of its own.
func (h *hub) read(key ClusterKey) {
	h.t.Helper()
	c, err := h.cache.GetUncachedClient(h.t.Context(), key)
	h.Expect(err).NotTo(HaveOccurred())
	name := types.NamespacedName{Namespace: "default", Name: "one"}
	h.Expect(client.IgnoreNotFound(c.Get(h.t.Context(), name, &corev1.ConfigMap{}))).To(Succeed())
}

// seldom are options with which a target is probed by hints alone, and no answer counts as none because it is slow.
func seldom() Options {
	options := patiently()
	options.Probe.Interval = time.Hour
	return options
}

func TestSocketOfAProbeIsNoReasonToProbe(t *testing.T) {
	h := start(t, seldom())
	a := newAPIServer(t, newStore("uid-a"))
	probed := closing(a)
	key := h.register("a", a.kubeconfig("x"))
	h.expectState(key, StateConnected)
	h.Consistently(probed).WithTimeout(3*probePause).Should(HaveLen(1), "connecting opens several sockets")

	h.cache.target(key).suspect()
	h.Eventually(probed).Should(HaveLen(2))
	h.Consistently(probed).WithTimeout(6*probePause).Should(HaveLen(2), "what was asked is answered")

	h.read(key)
	h.Eventually(func() int { return len(probed()) }).Should(BeNumerically(">", 2), "a socket of a call may lead elsewhere")
}

func TestProbesBySuspicionsThatComeToNothingBecomeRare(t *testing.T) {
	h := start(t, seldom())
	a := newAPIServer(t, newStore("uid-a"))
	probed := closing(a)
	key := h.register("a", a.kubeconfig("x"))
	h.expectState(key, StateConnected)
	h.Eventually(func() []time.Time {
		h.read(key)
		return probed()
	}).Should(HaveLen(4))
	times := probed()
	for i, pause := range []time.Duration{2 * probePause, 4 * probePause} {
		h.Expect(times[i+2].Sub(times[i+1])).To(BeNumerically(">=", pause), "between probe %d and the next", i+2)
	}
}
