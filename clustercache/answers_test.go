package clustercache

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// questions counts how often a target was asked whether it answers, and how often that was settled.
type questions struct {
	h              *hub
	key            ClusterKey
	asked, settled atomic.Int32
}

// ask asks until the target has answered nothing just now.
func (q *questions) ask() {
	q.h.Eventually(func() bool {
		return q.h.cache.Answers(q.key, func() { q.settled.Add(1) })
	}).Should(BeFalse())
	q.asked.Add(1)
}

func TestTargetIsAskedWhetherItAnswers(t *testing.T) {
	var probes atomic.Int32
	h, a, key := connected(t, Options{Probe: ProbeOptions{Interval: time.Hour}})
	a.setFault(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == identityPath {
			probes.Add(1)
		}
		return false
	})
	q := &questions{h: h, key: key}
	q.ask()
	h.Eventually(q.settled.Load).Should(BeEquivalentTo(1), "without waiting for a probe's turn")
	h.Expect(probes.Load()).To(BeEquivalentTo(1))

	q.ask()
	q.ask()
	h.Eventually(q.settled.Load).Should(BeEquivalentTo(3), "whoever asks hears of it, and once")
	h.Expect(probes.Load()).To(BeNumerically("<=", 3))
}

func TestAnswersToCallsTellThatATargetAnswers(t *testing.T) {
	h, a, key := connected(t, Options{Probe: ProbeOptions{Interval: time.Hour}})
	client, err := h.cache.GetMetadataClient(t.Context(), key)
	h.Expect(err).NotTo(HaveOccurred())
	a.store.put("configmaps", "default", "one", nil)
	q := &questions{h: h, key: key}
	h.Eventually(func(g Gomega) {
		g.Expect(get(client)).To(Succeed())
		g.Expect(h.cache.Answers(key, func() { q.settled.Add(1) })).To(BeTrue())
	}).Should(Succeed())
}

func TestSilentTargetIsSettledWhenItsConnectionEnds(t *testing.T) {
	for name, end := range map[string]func(h *hub, key ClusterKey){
		"probes fail":           func(h *hub, key ClusterKey) { h.expectState(key, StateDisconnected) },
		"the registration goes": func(h *hub, key ClusterKey) { h.unregister(key) },
		"the cache ends":        func(h *hub, _ ClusterKey) { h.stop() },
	} {
		t.Run(name, func(t *testing.T) {
			h, a, key := connected(t, Options{Probe: ProbeOptions{Interval: time.Second}})
			q := &questions{h: h, key: key}
			q.ask()
			h.Eventually(q.settled.Load).Should(BeEquivalentTo(1))
			a.setFault(a.hangAll)
			q.ask()
			h.Consistently(q.settled.Load, "100ms").Should(BeEquivalentTo(1))
			end(h, key)
			h.Eventually(q.settled.Load).Should(BeEquivalentTo(2))
			h.Expect(h.cache.Answers(key, func() { q.settled.Add(1) })).To(BeTrue(), "calls fail at once")
			h.Consistently(q.settled.Load, "200ms").Should(BeEquivalentTo(2))
		})
	}
}

func TestTargetThatAnswersAgainIsSettled(t *testing.T) {
	h, a, key := connected(t, Options{Probe: ProbeOptions{Failures: 1000}})
	a.setFault(a.hangAll)
	q := &questions{h: h, key: key}
	q.ask()
	h.Eventually(func() int { return h.cache.GetHealthCheckingState(t.Context(), key).ConsecutiveFailures }).Should(BeNumerically(">", 1))
	h.Expect(q.settled.Load()).To(BeZero())
	a.setFault(nil)
	h.Eventually(q.settled.Load).Should(BeEquivalentTo(1))
	h.Expect(h.state(key)).To(Equal(StateConnected))
}

func TestNobodyIsAskedWithoutAConnection(t *testing.T) {
	h, a, key := connected(t, Options{})
	h.Expect(h.cache.Answers(ClusterKey{Namespace: "no", Name: "such"}, func() { t.Error("settled what was not asked") })).To(BeTrue())
	a.setFault(a.hangAll)
	h.expectState(key, StateDisconnected)
	h.Expect(h.cache.Answers(key, func() { t.Error("settled what was not asked") })).To(BeTrue())
}
