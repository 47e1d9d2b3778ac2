package server

import (
	"errors"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/trellis-hub/trellis/metrics"
)

// MetricDefinitions are the metrics of this package.
var MetricDefinitions = &metrics.Set{}

var (
	metricRequests = MetricDefinitions.Counter("trellis_webhook_requests_total",
		"Webhook requests of targets, by webhook and result. Requests with a path that the hub did not create "+
			"have an empty webhook.", "webhook", "result")
	metricDuration = MetricDefinitions.Histogram("trellis_webhook_duration_seconds",
		"How long webhook handlers took, reads of the target included.",
		[]float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}, "webhook")
	metricInFlight = MetricDefinitions.Gauge("trellis_webhook_requests_in_flight",
		"Webhook requests in flight.")
	metricExpires = MetricDefinitions.Gauge("trellis_webhook_certificate_expiration_timestamp_seconds",
		"When the certificate for webhooks of this replica expires, in seconds since 1970.")
	metricTarget = MetricDefinitions.Counter("trellis_target_webhook_requests_total",
		"Webhook requests of the target's API server to this replica.", metrics.LabelTarget)
	metricTargetRefused = MetricDefinitions.Counter("trellis_target_webhook_requests_refused_total",
		"Webhook requests of the target's API server that were refused because there were too many.",
		metrics.LabelTarget)
)

// Results of requests.
const (
	resultUnchanged = "unchanged" // allowed as it is
	resultPatched   = "patched"
	resultDenied    = "denied"
	resultFailed    = "failed" // in the hub
	resultPanic     = "panic"
	resultOff       = "off"      // the webhook is switched off for the target
	resultDetached  = "detached" // the target is no longer registered
	resultMalformed = "malformed"
	resultTooMany   = "too_many"
	resultOverload  = "overload"
	resultForged    = "forged"
	resultExtra     = "answered" // no AdmissionReview
)

// Metrics takes the figures of a server. Make it with NewMetrics.
type Metrics struct {
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
	server   atomic.Pointer[Server]
}

// NewMetrics registers the metrics.
func NewMetrics(registerer prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{requests: metricRequests.CounterVec(), duration: metricDuration.HistogramVec()}
	return m, errors.Join(registerer.Register(m.requests), registerer.Register(m.duration), registerer.Register(m))
}

func (m *Metrics) of(s *Server) { m.server.Store(s) }

func (m *Metrics) count(webhook, result string) {
	if m != nil {
		m.requests.WithLabelValues(webhook, result).Inc()
	}
}

func (m *Metrics) took(webhook string, seconds float64) {
	if m != nil {
		m.duration.WithLabelValues(webhook).Observe(seconds)
	}
}

var (
	descInFlight, descExpires = metricInFlight.Desc(), metricExpires.Desc()
	descTarget, descRefused   = metricTarget.Desc(), metricTargetRefused.Desc()
)

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(descriptions chan<- *prometheus.Desc) {
	descriptions <- descInFlight
	descriptions <- descExpires
	descriptions <- descTarget
	descriptions <- descRefused
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(collected chan<- prometheus.Metric) {
	s := m.server.Load()
	if s == nil {
		return
	}
	if pair, err := s.Certificate(nil); err == nil && pair != nil && pair.Leaf != nil {
		collected <- metrics.Const(descExpires, prometheus.GaugeValue, float64(pair.Leaf.NotAfter.Unix()))
	}
	s.limits.mu.Lock()
	defer s.limits.mu.Unlock()
	collected <- metrics.Const(descInFlight, prometheus.GaugeValue, float64(s.limits.inFlight))
	for key, own := range s.limits.targets {
		name := metrics.TargetName(key)
		collected <- metrics.Const(descTarget, prometheus.CounterValue, float64(own.served), name)
		collected <- metrics.Const(descRefused, prometheus.CounterValue, float64(own.refused), name)
	}
}
