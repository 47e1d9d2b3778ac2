package networkpolicy

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/metrics"
)

// MetricDefinitions are the metrics of this package.
var MetricDefinitions = &metrics.Set{}

var metricFailing = MetricDefinitions.Gauge("trellis_target_network_policies_failing",
	"Services of the target with wrong network policies: an annotation is not valid, another policy has the name, "+
		"or the target refuses the write. At most 1000 are counted.", metrics.LabelTarget)

// maxFailing is how many Services with faults are counted in a target.
const maxFailing = 1000

// Metrics takes the figures of the controllers of all terms. Nil takes none. Make it with NewMetrics.
type Metrics struct {
	targets metrics.Targets[map[types.NamespacedName]struct{}] // the Services with faults
}

// NewMetrics registers the metrics.
func NewMetrics(registerer prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{}
	return m, registerer.Register(failingCollector{m}) //nolint:wrapcheck // it names the metric
}

func (m *Metrics) engage(target clustercache.ClusterKey) {
	if m != nil {
		m.targets.Engage(target, map[types.NamespacedName]struct{}{})
	}
}

func (m *Metrics) forget(target clustercache.ClusterKey) {
	if m != nil {
		m.targets.Forget(target)
	}
}

// ran notes what came of a run for a Service. A target that went away says nothing.
func (m *Metrics) ran(target clustercache.ClusterKey, service types.NamespacedName, err error) {
	gone := errors.Is(err, clustercache.ErrClusterNotConnected) || errors.Is(err, clustercache.ErrConnectionReplaced)
	if m == nil || gone {
		return
	}
	m.targets.Update(target, func(failing *map[types.NamespacedName]struct{}) {
		switch {
		case err == nil:
			delete(*failing, service)
		case len(*failing) < maxFailing:
			(*failing)[service] = struct{}{}
		}
	})
}

// failingCollector reports how many Services have faults.
type failingCollector struct{ *Metrics }

var descFailing = metricFailing.Desc()

// Describe implements prometheus.Collector.
func (c failingCollector) Describe(descs chan<- *prometheus.Desc) { descs <- descFailing }

// Collect implements prometheus.Collector.
func (c failingCollector) Collect(found chan<- prometheus.Metric) {
	c.targets.Range(func(target string, failing *map[types.NamespacedName]struct{}) {
		found <- metrics.Const(descFailing, prometheus.GaugeValue, float64(len(*failing)), target)
	})
}
