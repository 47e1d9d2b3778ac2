package clustercache

import (
	"context"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
)

func TestMetricsComeAndGoWithTheTarget(t *testing.T) {
	registry := prometheus.NewRegistry()
	h, a, key := connected(t, Options{Registerer: registry})
	h.watchConfigMaps(key)
	h.register("a", a.kubeconfig("y"))
	h.expectEvent(key, EventRotated)
	h.Eventually(func() map[string]int { return series(h, registry) }).Should(And(
		HaveKeyWithValue("trellis_target_up", 1),
		HaveKeyWithValue("trellis_target_watches_unsynced", 1),
		HaveKeyWithValue("trellis_target_last_probe_success_timestamp_seconds", 1),
		HaveKeyWithValue("trellis_clustercache_connects_total", 1),
		HaveKeyWithValue("trellis_clustercache_rotations_total", 1),
		HaveKey("trellis_clustercache_probes_total"),
	))
	h.unregister(key)
	h.expectEvent(key, EventGone)
	h.Expect(series(h, registry)).NotTo(Or(HaveKey("trellis_target_up"), HaveKey("trellis_target_watches_unsynced")))
}

// series counts the series of each metric.
func series(h *hub, registry *prometheus.Registry) map[string]int {
	families, err := registry.Gather()
	h.Expect(err).NotTo(HaveOccurred())
	counts := map[string]int{}
	for _, family := range families {
		h.Expect(strings.HasPrefix(family.GetName(), "trellis_")).To(BeTrue())
		counts[family.GetName()] = len(family.GetMetric())
	}
	return counts
}

type countHosts map[string]int

func (c countHosts) Increment(_ context.Context, _, _, host string) { c[host]++ }

func TestHostsAreMergedInClientMetrics(t *testing.T) {
	g := NewWithT(t)
	hosts := countHosts{}
	m := mergedHosts{next: hosts, keep: map[string]bool{"source:443": true}}
	for _, host := range []string{"source:443", "a:443", "b:443"} {
		m.Increment(context.Background(), "200", "GET", host)
	}
	g.Expect(hosts).To(Equal(countHosts{"source:443": 1, "target": 2}))
}

func TestHistogramsOfATargetGoWithIt(t *testing.T) {
	registry := prometheus.NewRegistry()
	h, _, key := connected(t, Options{Registerer: registry, TargetHistograms: true})
	h.Eventually(func() map[string]int { return series(h, registry) }).Should(HaveKeyWithValue("trellis_target_probe_duration_seconds", 1))
	h.unregister(key)
	h.Eventually(h.exists(key)).Should(BeFalse())
	h.Eventually(func() map[string]int { return series(h, registry) }).ShouldNot(HaveKey("trellis_target_probe_duration_seconds"))
}

func TestInspectionShowsTheConnectionButNoSecret(t *testing.T) {
	h, _, key := connected(t, Options{})
	h.watchConfigMaps(key)
	h.Eventually(func() []WatchInspection { return h.cache.Inspect()[0].Watches }).Should(ConsistOf(HaveField("Synced", true)))
	in := h.cache.Inspect()[0]
	h.Expect(in.Usable).To(BeTrue())
	h.Expect(in.MaxInFlight).To(Equal(DefaultLimits.MaxInFlight))
	h.Expect(in.Succeeded).NotTo(BeZero(), "the list of the watch")
	h.Expect(in.Status).To(And(HaveField("Cluster", key), HaveField("State", StateConnected), HaveField("Labels", BeNil()), HaveField("Annotations", BeNil())))
}
