package csrapprover

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/metrics"
)

// MetricDefinitions are the metrics of this package.
var MetricDefinitions = &metrics.Set{}

var (
	metricDecisions = MetricDefinitions.Counter("trellis_controller_csr_decisions_total",
		"Decisions about CertificateSigningRequests of targets: approved or denied, by signer.", "decision", "signer")
	metricDenied = MetricDefinitions.Counter("trellis_target_certificates_denied_total",
		"CertificateSigningRequests of the target that were denied.", metrics.LabelTarget)
)

// Metrics takes the figures of the controllers of all terms. Nil takes none. Make it with NewMetrics.
type Metrics struct {
	decisions *prometheus.CounterVec
	denied    metrics.Targets[int] // each target has a series from the beginning, too
}

// NewMetrics registers the metrics. All series are there from the beginning, so that the first denial is an increase.
func NewMetrics(registerer prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{decisions: metricDecisions.CounterVec()}
	for _, signer := range signers {
		for _, o := range []outcome{approved, denied} {
			m.decisions.WithLabelValues(string(o), signer)
		}
	}
	for _, collector := range []prometheus.Collector{m.decisions, deniedCollector{m}} {
		if err := registerer.Register(collector); err != nil {
			return nil, err //nolint:wrapcheck // it names the metric
		}
	}
	return m, nil
}

func (m *Metrics) engage(target clustercache.ClusterKey) {
	if m != nil {
		m.denied.Engage(target, 0)
	}
}

func (m *Metrics) forget(target clustercache.ClusterKey) {
	if m != nil {
		m.denied.Forget(target)
	}
}

func (m *Metrics) decided(target clustercache.ClusterKey, o outcome, signer string) {
	if m == nil {
		return
	}
	m.decisions.WithLabelValues(string(o), signer).Inc()
	if o == denied {
		m.denied.Update(target, func(n *int) { *n++ })
	}
}

// deniedCollector reports, for each target, how many of its requests were denied.
type deniedCollector struct{ *Metrics }

var descDenied = metricDenied.Desc()

// Describe implements prometheus.Collector.
func (c deniedCollector) Describe(descs chan<- *prometheus.Desc) { descs <- descDenied }

// Collect implements prometheus.Collector.
func (c deniedCollector) Collect(found chan<- prometheus.Metric) {
	c.denied.Range(func(target string, n *int) {
		found <- metrics.Const(descDenied, prometheus.CounterValue, float64(*n), target)
	})
}
