package tokenrequestor

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/trellis-hub/trellis/metrics"
)

// MetricDefinitions are the metrics of this package.
var MetricDefinitions = &metrics.Set{}

var (
	metricRequests = MetricDefinitions.Counter("trellis_token_requests_total",
		"Tokens of ServiceAccounts that access Secrets asked for, by result: issued, failed, or denied by the policy.",
		"result")
	metricReviews = MetricDefinitions.Counter("trellis_token_reviews_total",
		"Reviews of tokens of access Secrets in their targets, by result: good, bad if the target does not accept the "+
			"token as one of the ServiceAccount, or failed.", "result")
	metricOverdue = MetricDefinitions.Gauge("trellis_target_tokens_overdue",
		"Access Secrets whose token is overdue: it should have been issued or renewed.", metrics.LabelTarget)
	metricExpiry = MetricDefinitions.Gauge("trellis_target_tokens_overdue_expiration_timestamp_seconds",
		"When the first overdue token expires, in seconds since 1970. Absent if no token is overdue.",
		metrics.LabelTarget)
)

// Results of requests and reviews.
const (
	resultIssued = "issued"
	resultDenied = "denied"
	resultFailed = "failed"
	resultGood   = "good"
	resultBad    = "bad"
)

// Metrics takes the figures of the controllers of all terms. Nil takes none. Make it with NewMetrics.
type Metrics struct {
	requests, reviews *prometheus.CounterVec

	mu   sync.Mutex
	term *reconciler // nil between terms
}

// NewMetrics registers the metrics.
func NewMetrics(registerer prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{requests: metricRequests.CounterVec(), reviews: metricReviews.CounterVec()}
	// All series are there from the beginning, so that the first failure is an increase.
	for _, result := range []string{resultIssued, resultDenied, resultFailed} {
		m.requests.WithLabelValues(result)
	}
	for _, result := range []string{resultGood, resultBad, resultFailed} {
		m.reviews.WithLabelValues(result)
	}
	for _, collector := range []prometheus.Collector{m.requests, m.reviews, overdueCollector{m}} {
		if err := registerer.Register(collector); err != nil {
			return nil, err //nolint:wrapcheck // it names the metric
		}
	}
	return m, nil
}

func (m *Metrics) requested(result string) {
	if m != nil {
		m.requests.WithLabelValues(result).Inc()
	}
}

func (m *Metrics) reviewed(result string) {
	if m != nil {
		m.reviews.WithLabelValues(result).Inc()
	}
}

// begin and end say of which term the figures of targets are.
func (m *Metrics) begin(term *reconciler) {
	if m != nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.term = term
	}
}

func (m *Metrics) end() { m.begin(nil) }

// overdueCollector calculates its figures when it is collected: tokens become overdue without an event.
type overdueCollector struct{ *Metrics }

var descOverdue, descExpiry = metricOverdue.Desc(), metricExpiry.Desc()

// Describe implements prometheus.Collector.
func (c overdueCollector) Describe(descs chan<- *prometheus.Desc) {
	descs <- descOverdue
	descs <- descExpiry
}

// Collect implements prometheus.Collector.
func (c overdueCollector) Collect(found chan<- prometheus.Metric) {
	c.mu.Lock()
	term := c.term
	c.mu.Unlock()
	if term == nil {
		return
	}
	for key, o := range term.tokens.overdue(term.clock.Now()) {
		target := metrics.TargetName(key)
		found <- metrics.Const(descOverdue, prometheus.GaugeValue, float64(o.number), target)
		if !o.expiry.IsZero() {
			found <- metrics.Const(descExpiry, prometheus.GaugeValue, float64(o.expiry.Unix()), target)
		}
	}
}
