package criticalcomponents

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/metrics"
)

// MetricDefinitions are the metrics of this package.
var MetricDefinitions = &metrics.Set{}

var (
	metricWaiting = MetricDefinitions.Gauge("trellis_target_nodes_waiting",
		"Nodes of the target that have the taint of critical components.", metrics.LabelTarget)
	metricOldest = MetricDefinitions.Gauge("trellis_target_nodes_waiting_oldest_seconds",
		"How long a Node of the target has had the taint of critical components, at most: since the time in the "+
			"taint, or since the leader saw it first. Zero if no Node has it.",
		metrics.LabelTarget)
)

// Metrics takes the figures of the controllers of all terms. Nil takes none. Make it with NewMetrics.
type Metrics struct{ targets metrics.Targets[nodes] }

// nodes are those of a target that have the taint, and since when.
type nodes struct {
	clock clock.PassiveClock
	since map[string]time.Time
}

// NewMetrics registers the metrics.
func NewMetrics(registerer prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{}
	return m, registerer.Register(waitingCollector{m}) //nolint:wrapcheck // it names the metric
}

func (m *Metrics) engage(target clustercache.ClusterKey, c clock.PassiveClock) {
	if m != nil {
		m.targets.Engage(target, nodes{clock: c, since: map[string]time.Time{}})
	}
}

func (m *Metrics) forget(target clustercache.ClusterKey) {
	if m != nil {
		m.targets.Forget(target)
	}
}

// waits notes that a Node has the taint.
func (m *Metrics) waits(target clustercache.ClusterKey, node *corev1.Node) {
	if m == nil {
		return
	}
	m.targets.Update(target, func(n *nodes) {
		since, known := n.since[node.Name]
		if now := n.clock.Now(); !known || since.After(now) {
			since = now
		}
		for i := range node.Spec.Taints {
			taint := &node.Spec.Taints[i]
			if isOurs(*taint) && taint.TimeAdded != nil && taint.TimeAdded.Time.Before(since) {
				since = taint.TimeAdded.Time
			}
		}
		n.since[node.Name] = since
	})
}

// done notes that a Node does not have the taint, or does not exist.
func (m *Metrics) done(target clustercache.ClusterKey, node string) {
	if m != nil {
		m.targets.Update(target, func(n *nodes) { delete(n.since, node) })
	}
}

// waitingCollector calculates its figures when it is collected: waiting times grow without an event.
type waitingCollector struct{ *Metrics }

var descWaiting, descOldest = metricWaiting.Desc(), metricOldest.Desc()

// Describe implements prometheus.Collector.
func (c waitingCollector) Describe(descs chan<- *prometheus.Desc) {
	descs <- descWaiting
	descs <- descOldest
}

// Collect implements prometheus.Collector.
func (c waitingCollector) Collect(found chan<- prometheus.Metric) {
	c.targets.Range(func(target string, n *nodes) {
		var oldest time.Duration
		for _, since := range n.since {
			oldest = max(oldest, n.clock.Since(since))
		}
		found <- metrics.Const(descWaiting, prometheus.GaugeValue, float64(len(n.since)), target)
		found <- metrics.Const(descOldest, prometheus.GaugeValue, oldest.Seconds(), target)
	})
}
