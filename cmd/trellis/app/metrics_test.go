package app_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1alpha1 "github.com/trellis-hub/trellis/apis/config/v1alpha1"
	"github.com/trellis-hub/trellis/cmd/trellis/app"
	"github.com/trellis-hub/trellis/hack/testbed"
	"github.com/trellis-hub/trellis/metrics"
)

// maxSeries is how many series a target may have, histograms not counted.
const maxSeries = 15

func TestMetricsPassTheLinter(t *testing.T) {
	g := NewWithT(t)
	registry := prometheus.NewRegistry()
	names := map[string]bool{}
	for _, d := range app.Metrics() {
		g.Expect(names[d.Name]).To(BeFalse(), "%s is defined twice", d.Name)
		names[d.Name] = true
		g.Expect(d.Name).To(HavePrefix("trellis_"))
		g.Expect(d.Help).To(HaveSuffix("."), d.Name)
		values := make([]string, len(d.Labels))
		switch d.Type {
		case metrics.TypeCounter:
			c := d.CounterVec()
			c.WithLabelValues(values...)
			g.Expect(registry.Register(c)).To(Succeed())
		case metrics.TypeGauge:
			c := d.GaugeVec()
			c.WithLabelValues(values...)
			g.Expect(registry.Register(c)).To(Succeed())
		case metrics.TypeHistogram:
			c := d.HistogramVec()
			c.WithLabelValues(values...)
			g.Expect(registry.Register(c)).To(Succeed())
		}
	}
	families, err := registry.Gather()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(families).To(HaveLen(len(names)))
	g.Expect(promlint.NewWithMetricFamilies(families).Lint()).To(BeEmpty())
}

// gathered returns the metrics of a hub by name, those of libraries left out.
func (e *env) gathered(hub *testbed.Hub) map[string]*dto.MetricFamily {
	e.t.Helper()
	families, err := hub.Registry.Gather()
	e.Expect(err).NotTo(HaveOccurred())
	found := map[string]*dto.MetricFamily{}
	for _, f := range families {
		if strings.HasPrefix(f.GetName(), "trellis_") {
			found[f.GetName()] = f
		}
	}
	return found
}

// pageSize is how many bytes Prometheus reads from a hub each time, those about the process included.
func pageSize(hub *testbed.Hub) int {
	page := httptest.NewRecorder()
	promhttp.HandlerFor(hub.Registry, promhttp.HandlerOpts{}).ServeHTTP(page, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	return page.Body.Len()
}

// series counts the series of each target.
func series(families map[string]*dto.MetricFamily) map[string]int {
	counts := map[string]int{}
	for _, f := range families {
		if f.GetType() == dto.MetricType_HISTOGRAM {
			continue
		}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetName() == metrics.LabelTarget {
					counts[l.GetValue()]++
				}
			}
		}
	}
	return counts
}

// What a hub shows is what is defined, and documented by that: names, types and labels.
func TestMetricsOfAHubAreTheDefinedOnes(t *testing.T) {
	e := newEnv(t)
	hub := e.startHub(func(c *configv1alpha1.HubConfiguration) { c.Metrics.TargetHistograms = true })
	e.expectWork()
	defined := map[string]*metrics.Definition{}
	for _, d := range app.Metrics() {
		defined[d.Name] = d
	}
	own := e.name + "/target"
	e.Eventually(func(g Gomega) {
		shown := e.gathered(hub)
		for name, family := range shown {
			d := defined[name]
			g.Expect(d).NotTo(BeNil(), name)
			g.Expect(strings.ToLower(family.GetType().String())).To(Equal(string(d.Type)), name)
			for _, m := range family.GetMetric() {
				var labels []string
				for _, l := range m.GetLabel() {
					labels = append(labels, l.GetName())
				}
				g.Expect(labels).To(ConsistOf(d.Labels), name)
			}
		}
		for name := range defined {
			if strings.Contains(name, "webhook_") || strings.Contains(name, "webhooks_") { // of webhooks, which are off here
				continue
			}
			if slices.Contains([]string{ // that only come with what did not happen here
				"trellis_clustercache_disconnects_total", "trellis_clustercache_rotations_total",
				"trellis_hub_config_last_reload_successful", "trellis_hub_config_restart_needed",
				"trellis_clustercache_probes_total", "trellis_clustercache_mass_disconnect",
				"trellis_target_tokens_overdue", "trellis_target_tokens_overdue_expiration_timestamp_seconds",
				"trellis_target_condition_false", "trellis_target_managedresources_not_applied",
				"trellis_target_managedresources_contested", "trellis_target_managedresources_deletion_oldest_seconds",
				"trellis_target_revision_lag_seconds", "trellis_target_drift_late_total",
				"trellis_target_apply_failures_total", "trellis_target_prune_failures_total",
				"trellis_target_longest_run_seconds", "trellis_target_reconcile_overdue",
				"trellis_target_rotation_failing",
				// Of controllers in targets, which are off here.
				"trellis_controller_care_constraints", "trellis_controller_care_webhook_configurations_remedied_total",
				"trellis_controller_stale_pods_deleted_total", "trellis_target_certificates_denied_total",
				"trellis_target_garbage_collected_total", "trellis_target_garbage_collection_missed_periods",
				"trellis_target_network_policies_failing", "trellis_target_nodes_waiting",
				"trellis_target_nodes_waiting_oldest_seconds",
			}, name) {
				continue
			}
			g.Expect(shown).To(HaveKey(name))
		}
		g.Expect(series(shown)).To(HaveKeyWithValue(own, BeNumerically("<=", maxSeries)))
		g.Expect(value(shown, "trellis_target_up", own)).To(Equal(1.0))
		g.Expect(value(shown, "trellis_target_info", own)).To(Equal(1.0))
		g.Expect(value(shown, "trellis_target_objects", own)).To(Equal(1.0))
		g.Expect(value(shown, "trellis_target_managedresources_not_ready", own)).To(BeZero())
		g.Expect(value(shown, "trellis_target_drift_corrections_total", own)).To(BeNumerically(">=", 1))
		g.Expect(value(shown, "trellis_hub_leader")).To(Equal(1.0))
		g.Expect(samples(shown, "trellis_drift_correction_duration_seconds")).To(BeNumerically(">=", 1))
	}).WithPolling(time.Second).Should(Succeed())

	e.Expect(source.Client.Patch(e.ctx, &corev1.Secret{ObjectMeta: objectMeta(e.name, "mr")}, client.RawPatch("application/merge-patch+json",
		fmt.Appendf(nil, `{"data":null,"stringData":{"objects.yaml":%q}}`, testbed.ConfigMap(e.name, "one", "2"))))).To(
		Succeed())
	e.Eventually(e.value).Should(Equal("2"))
	e.Eventually(func() uint64 { return samples(e.gathered(hub), "trellis_secret_propagation_duration_seconds") }).Should(BeNumerically(">=", 1))
	e.stop(hub)
}

// samples counts what a histogram has seen, whatever its labels.
func samples(families map[string]*dto.MetricFamily, name string) (n uint64) {
	for _, m := range families[name].GetMetric() {
		n += m.GetHistogram().GetSampleCount()
	}
	return n
}

// value is that of the series whose label has one of the values; of any series without.
func value(families map[string]*dto.MetricFamily, name string, of ...string) float64 {
	for _, m := range families[name].GetMetric() {
		matches := len(of) == 0
		for _, l := range m.GetLabel() {
			matches = matches || slices.Contains(of, l.GetValue())
		}
		if matches {
			return m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	return -1
}

// unreachable is a kubeconfig with the address of a closed port.
const unreachable = `{"apiVersion": "v1", "kind": "Config", "current-context": "c",
	"contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
"clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}], "users": [{"name": "u", "user": {"token": "t"}}]}`
