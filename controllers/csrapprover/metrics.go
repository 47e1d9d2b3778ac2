package csrapprover

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/trellis-hub/trellis/metrics"
)

// MetricDefinitions are the metrics of this package.
var MetricDefinitions = &metrics.Set{}

var metricDecisions = MetricDefinitions.Counter("trellis_controller_csr_decisions_total",
	"CertificateSigningRequests of targets that were decided: approved or denied, by signer.", "decision", "signer")

// Metrics takes the figures of the controllers of all terms. Nil takes none. Make it with NewMetrics.
type Metrics struct{ decisions *prometheus.CounterVec }

// NewMetrics registers the metrics. All series are there from the beginning, so that the first denial is an increase.
func NewMetrics(registerer prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{decisions: metricDecisions.CounterVec()}
	for _, signer := range signers {
		for _, o := range []outcome{approved, denied} {
			m.decisions.WithLabelValues(string(o), signer)
		}
	}
	return m, registerer.Register(m.decisions) //nolint:wrapcheck // it names the metric
}

func (m *Metrics) decided(o outcome, signer string) {
	if m != nil {
		m.decisions.WithLabelValues(string(o), signer).Inc()
	}
}
