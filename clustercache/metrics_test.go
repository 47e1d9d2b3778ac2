package clustercache

import (
	"context"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"
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

// A kind that the target may do without is no watch that fails, one that it must have is.
func TestAbsentKindsAreAStateOfTheirOwn(t *testing.T) {
	registry := prometheus.NewRegistry()
	h, _, key := connected(t, Options{Registerer: registry})
	h.watchConfigMaps(key)
	unknown := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Unknown"}
	h.watch(key, Watcher{Name: "optional", Kind: unknown, MetadataOnly: true, Optional: true})
	h.Eventually(func() []WatchInspection { return h.cache.Inspect()[0].Watches }).Should(ContainElement(And(
		HaveField("Name", ContainSubstring("optional")), HaveField("Synced", false), HaveField("Absent", true))))
	states := func() map[string]float64 {
		families, err := registry.Gather()
		h.Expect(err).NotTo(HaveOccurred())
		values := map[string]float64{}
		for _, family := range families {
			for _, m := range family.GetMetric() {
				switch family.GetName() {
				case "trellis_clustercache_watches":
					values[m.GetLabel()[0].GetValue()] = m.GetGauge().GetValue()
				case "trellis_target_watches_unsynced":
					values["of the target"] = m.GetGauge().GetValue()
				}
			}
		}
		return values
	}
	h.Eventually(states).Should(Equal(
		map[string]float64{"synced": 1, "absent": 1, "unsynced": 0, "of the target": 0}))
	unknown.Kind = "Needed"
	h.watch(key, Watcher{Name: "needed", Kind: unknown, MetadataOnly: true})
	h.Eventually(states).Should(Equal(
		map[string]float64{"synced": 1, "absent": 1, "unsynced": 1, "of the target": 1}))
}
