package multicluster

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/metrics"
)

// MetricDefinitions are the metrics of this package.
var MetricDefinitions = &metrics.Set{}

var (
	metricRuns = MetricDefinitions.Counter("trellis_controller_reconciles_total",
		"Runs of controllers in targets, by result: success, error, or disconnected if the target went away.",
		"controller", "result")
	metricDuration = MetricDefinitions.Histogram("trellis_controller_reconcile_duration_seconds",
		"How long runs of controllers in targets took.", []float64{.01, .05, .1, .5, 1, 5, 10, 30, 60}, "controller")
	metricTargets = MetricDefinitions.Gauge("trellis_controller_targets",
		"Targets that a controller works in.", "controller")
)

// Metrics takes the figures of all controllers. Nil takes none. Make it with NewMetrics.
type Metrics struct {
	runs     *prometheus.CounterVec
	duration *prometheus.HistogramVec
	engaged  *prometheus.GaugeVec
}

// NewMetrics registers the metrics.
func NewMetrics(registerer prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		runs: metricRuns.CounterVec(), duration: metricDuration.HistogramVec(), engaged: metricTargets.GaugeVec(),
	}
	for _, collector := range []prometheus.Collector{m.runs, m.duration, m.engaged} {
		if err := registerer.Register(collector); err != nil {
			return nil, err //nolint:wrapcheck // it names the metric
		}
	}
	return m, nil
}

func (m *Metrics) observe(controller string, took time.Duration, err error) {
	if m == nil {
		return
	}
	result := "success"
	switch {
	case errors.Is(err, clustercache.ErrClusterNotConnected), errors.Is(err, clustercache.ErrConnectionReplaced):
		result = "disconnected"
	case err != nil:
		result = "error"
	}
	m.runs.WithLabelValues(controller, result).Inc()
	m.duration.WithLabelValues(controller).Observe(took.Seconds())
}

func (m *Metrics) targets(controller string, n int) {
	if m != nil {
		m.engaged.WithLabelValues(controller).Set(float64(n))
	}
}

// end drops what is true only during a term.
func (m *Metrics) end(controller string) {
	if m != nil {
		m.engaged.DeleteLabelValues(controller)
	}
}
