package stalepods

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/trellis-hub/trellis/metrics"
)

// MetricDefinitions are the metrics of this package.
var MetricDefinitions = &metrics.Set{}

var metricDeleted = MetricDefinitions.Counter("trellis_controller_stale_pods_deleted_total",
	"Stale pods that were deleted, by the cluster they were in and by reason.", "cluster", "reason")

// Metrics takes the figures of the controllers of all terms. Nil takes none. Make it with NewMetrics.
type Metrics struct{ deleted *prometheus.CounterVec }

// NewMetrics registers the metrics. All series are there from the beginning, so that the first deletion is an increase.
func NewMetrics(registerer prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{deleted: metricDeleted.CounterVec()}
	for _, cluster := range []string{inTarget, inSource} {
		for _, reason := range []string{evicted, nodeAffinity, outOf, terminating} {
			m.deleted.WithLabelValues(cluster, reason)
		}
	}
	return m, registerer.Register(m.deleted) //nolint:wrapcheck // it names the metric
}

func (m *Metrics) count(cluster, reason string) {
	if m != nil {
		m.deleted.WithLabelValues(cluster, reason).Inc()
	}
}
