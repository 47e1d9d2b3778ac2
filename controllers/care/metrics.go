package care

import (
	"maps"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/metrics"
)

// MetricDefinitions are the metrics of this package.
var MetricDefinitions = &metrics.Set{}

var (
	metricConstraints = MetricDefinitions.Gauge("trellis_controller_care_constraints",
		"Targets, the source included, by the status of a constraint.", "constraint", "status")
	metricRemedied = MetricDefinitions.Counter("trellis_controller_care_webhook_configurations_remedied_total",
		"Webhook configurations in targets that were changed because they could stop the target.")
)

// constraintTypes are all constraints.
var constraintTypes = []string{
	hubv1alpha1.ConstraintCACertificateValiditiesAcceptable,
	hubv1alpha1.ConstraintCRDsWithProblematicConversionWebhooks,
	hubv1alpha1.ConstraintWebhooksUnproblematic,
}

// Metrics takes the figures of the controllers of all terms. Nil takes none. Make it with NewMetrics.
type Metrics struct {
	constraints *prometheus.GaugeVec
	remedied    prometheus.Counter

	mu sync.Mutex
	// found is the status of each constraint by target.
	found map[clustercache.ClusterKey]map[string]metav1.ConditionStatus
}

// NewMetrics registers the metrics.
func NewMetrics(registerer prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		constraints: metricConstraints.GaugeVec(), remedied: metricRemedied.Counter(),
		found: map[clustercache.ClusterKey]map[string]metav1.ConditionStatus{},
	}
	for _, collector := range []prometheus.Collector{m.constraints, m.remedied} {
		if err := registerer.Register(collector); err != nil {
			return nil, err //nolint:wrapcheck // it names the metric
		}
	}
	return m, nil
}

// set takes what was found out about some constraints of a target.
func (m *Metrics) set(key clustercache.ClusterKey, findings []finding) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := maps.Clone(m.found[key])
	if now == nil {
		now = map[string]metav1.ConditionStatus{}
	}
	for _, f := range findings {
		if f.keep {
			continue
		}
		now[f.constraint] = f.status
		if f.status == "" {
			now[f.constraint] = metav1.ConditionTrue // nothing is to be reported
		}
	}
	m.replace(key, now)
}

// forget drops what is known of a target.
func (m *Metrics) forget(key clustercache.ClusterKey) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.replace(key, nil)
}

func (m *Metrics) replace(key clustercache.ClusterKey, now map[string]metav1.ConditionStatus) {
	for constraint, status := range m.found[key] {
		m.constraints.WithLabelValues(constraint, string(status)).Dec()
	}
	for constraint, status := range now {
		m.constraints.WithLabelValues(constraint, string(status)).Inc()
	}
	if now == nil {
		delete(m.found, key)
	} else {
		m.found[key] = now
	}
}

func (m *Metrics) remediedOne() {
	if m != nil {
		m.remedied.Inc()
	}
}
