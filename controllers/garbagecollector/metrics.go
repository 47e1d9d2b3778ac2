package garbagecollector

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"

	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/metrics"
)

// MetricDefinitions are the metrics of this package.
var MetricDefinitions = &metrics.Set{}

var (
	metricMissed = MetricDefinitions.Gauge("trellis_target_garbage_collection_missed_periods",
		"Periods since the last successful pass of the garbage collector in the target. More than one: passes "+
			"fail.", metrics.LabelTarget)
	metricCollected = MetricDefinitions.Counter("trellis_target_garbage_collected_total",
		"ConfigMaps and Secrets of the target that were deleted because nothing referred to them.",
		metrics.LabelTarget)
)

// Metrics takes the figures of the controllers of all terms. Nil takes none. Make it with NewMetrics.
type Metrics struct{ targets metrics.Targets[passes] }

// passes are those of a target.
type passes struct {
	clock     clock.PassiveClock
	period    time.Duration
	last      time.Time // when one went well, or when they began
	collected int
}

// missed returns for how many whole periods no pass went well.
func (p *passes) missed() int {
	if p.period <= 0 {
		return 0
	}
	return max(0, int(p.clock.Since(p.last)/p.period))
}

// NewMetrics registers the metrics.
func NewMetrics(registerer prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{}
	return m, registerer.Register(collectedCollector{m}) //nolint:wrapcheck // it names the metric
}

func (m *Metrics) engage(target clustercache.ClusterKey, period time.Duration, c clock.PassiveClock) {
	if m != nil {
		m.targets.Engage(target, passes{clock: c, period: period, last: c.Now()})
	}
}

func (m *Metrics) forget(target clustercache.ClusterKey) {
	if m != nil {
		m.targets.Forget(target)
	}
}

// passed notes that a pass went well.
func (m *Metrics) passed(target clustercache.ClusterKey) {
	if m != nil {
		m.targets.Update(target, func(p *passes) { p.last = p.clock.Now() })
	}
}

func (m *Metrics) deleted(target clustercache.ClusterKey) {
	if m != nil {
		m.targets.Update(target, func(p *passes) { p.collected++ })
	}
}

// collectedCollector calculates its figures when it is collected: the number of missed passes grows without an event.
type collectedCollector struct{ *Metrics }

var descMissed, descCollected = metricMissed.Desc(), metricCollected.Desc()

// Describe implements prometheus.Collector.
func (c collectedCollector) Describe(descs chan<- *prometheus.Desc) {
	descs <- descMissed
	descs <- descCollected
}

// Collect implements prometheus.Collector.
func (c collectedCollector) Collect(found chan<- prometheus.Metric) {
	c.targets.Range(func(target string, p *passes) {
		found <- metrics.Const(descMissed, prometheus.GaugeValue, float64(p.missed()), target)
		found <- metrics.Const(descCollected, prometheus.CounterValue, float64(p.collected), target)
	})
}
