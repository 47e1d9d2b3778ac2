package clustercache

import (
	"context"
	"errors"

	"github.com/prometheus/client_golang/prometheus"
	clientmetrics "k8s.io/client-go/tools/metrics"
)

const metricsPrefix = "trellis_clustercache_"

// metrics counts what happens over all targets. What is told of each target is read when it is asked for, so that a
// target that is gone leaves no series behind.
type metrics struct {
	connects  *prometheus.CounterVec
	rotations *prometheus.CounterVec
	probes    *prometheus.CounterVec
}

func newMetrics() *metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: metricsPrefix + name, Help: help}, labels)
	}
	return &metrics{
		connects:  counter("connects_total", "Attempts to connect to a target, by result: ok or the reason of the failure.", "result"),
		rotations: counter("rotations_total", "Changes of the credential or address of a connected target, by mode (token, generation) and result.", "mode", "result"),
		probes:    counter("probes_total", "Probes of connected targets, by result.", "result"),
	}
}

func (m *metrics) attempted(mode string, err error) {
	if mode == modeConnect {
		m.connects.WithLabelValues(outcome(err)).Inc()
	} else {
		m.rotations.WithLabelValues(mode, outcome(err)).Inc()
	}
}

func (m *metrics) probed(err error) {
	m.probes.WithLabelValues(outcome(err)).Inc()
}

func outcome(err error) string {
	if err == nil {
		return "ok"
	}
	var f *failure
	if errors.As(err, &f) {
		return f.reason
	}
	return ReasonUnreachable
}

func (m *metrics) register(registerer prometheus.Registerer, c *Cache) error {
	for _, collector := range []prometheus.Collector{m.connects, m.rotations, m.probes, perTarget{c}} {
		if err := registerer.Register(collector); err != nil {
			return err
		}
	}
	return nil
}

var (
	targetLabels = []string{"namespace", "name"}
	descUp       = prometheus.NewDesc(metricsPrefix+"connection_up", "1 if calls to the target are possible.", targetLabels, nil)
	descProbe    = prometheus.NewDesc(metricsPrefix+"last_probe_success_timestamp_seconds", "When the target answered a probe last.", targetLabels, nil)
	descExpiry   = prometheus.NewDesc(metricsPrefix+"credential_expiry_timestamp_seconds", "When the credential in use ends.", targetLabels, nil)
	descWatches  = prometheus.NewDesc(metricsPrefix+"watches", "Watches declared in the target.", targetLabels, nil)
	descMappers  = prometheus.NewDesc(metricsPrefix+"mappers", "Distinct REST mappers that targets share.", nil, nil)
)

// perTarget collects the metrics of each target.
type perTarget struct{ cache *Cache }

// Describe implements prometheus.Collector.
func (p perTarget) Describe(descriptions chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descUp, descProbe, descExpiry, descWatches, descMappers} {
		descriptions <- d
	}
}

// Collect implements prometheus.Collector.
func (p perTarget) Collect(collected chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		collected <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	gauge(descMappers, float64(p.cache.mappers.Len()))
	p.cache.mu.RLock()
	targets := make([]*target, 0, len(p.cache.targets))
	for _, t := range p.cache.targets {
		targets = append(targets, t)
	}
	p.cache.mu.RUnlock()
	for _, t := range targets {
		t.mu.RLock()
		up, health, expiry, watches := 0.0, t.health, t.status.CredentialExpiry, len(t.watches)
		if t.gen != nil {
			up = 1
		}
		t.mu.RUnlock()
		labels := []string{t.key.Namespace, t.key.Name}
		gauge(descUp, up, labels...)
		gauge(descWatches, float64(watches), labels...)
		if !health.LastProbeSuccessTime.IsZero() {
			gauge(descProbe, float64(health.LastProbeSuccessTime.Unix()), labels...)
		}
		if !expiry.IsZero() {
			gauge(descExpiry, float64(expiry.Unix()), labels...)
		}
	}
}

// MergeHostsInClientMetrics makes client-go's request counters say "target" instead of the host for every host but those
// given. They have a series for each host, which are never removed. Call it once, before any client is built.
func MergeHostsInClientMetrics(keep ...string) {
	kept := map[string]bool{}
	for _, host := range keep {
		kept[host] = true
	}
	clientmetrics.RequestResult = mergedHosts{clientmetrics.RequestResult, kept}
}

type mergedHosts struct {
	next clientmetrics.ResultMetric
	keep map[string]bool
}

// Increment implements client-go's ResultMetric.
func (m mergedHosts) Increment(ctx context.Context, code, method, host string) {
	if !m.keep[host] {
		host = "target"
	}
	m.next.Increment(ctx, code, method, host)
}
