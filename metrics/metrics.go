package metrics

import (
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/trellis-hub/trellis/untrusted"
)

// LabelTarget is the label of metrics of each target.
const LabelTarget = "target"

// TargetName is the value of the label "target": namespace/name, or the name alone of a target without a namespace.
func TargetName(key types.NamespacedName) string {
	if key.Namespace == "" {
		return key.Name
	}
	return key.Namespace + "/" + key.Name
}

// Type is the type of a metric in Prometheus' terms.
type Type string

// The types.
const (
	TypeCounter   Type = "counter"
	TypeGauge     Type = "gauge"
	TypeHistogram Type = "histogram"
)

// Definition describes a metric, without its values.
type Definition struct {
	Name, Help string
	Type       Type
	Labels     []string
	Buckets    []float64 // of a histogram
}

// PerTarget reports whether every target has series of the metric.
func (d *Definition) PerTarget() bool { return slices.Contains(d.Labels, LabelTarget) }

// Desc returns the description for collectors that read the value on collection.
func (d *Definition) Desc() *prometheus.Desc {
	return prometheus.NewDesc(d.Name, d.Help, d.Labels, nil)
}

// CounterVec returns a counter that is zero.
func (d *Definition) CounterVec() *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: d.Name, Help: d.Help}, d.Labels)
}

// Counter returns a counter without labels.
func (d *Definition) Counter() prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{Name: d.Name, Help: d.Help})
}

// GaugeVec returns a gauge that is zero.
func (d *Definition) GaugeVec() *prometheus.GaugeVec {
	return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: d.Name, Help: d.Help}, d.Labels)
}

// Gauge returns a gauge without labels.
func (d *Definition) Gauge() prometheus.Gauge {
	return prometheus.NewGauge(prometheus.GaugeOpts{Name: d.Name, Help: d.Help})
}

// HistogramVec returns a histogram that is empty.
func (d *Definition) HistogramVec() *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: d.Name, Help: d.Help, Buckets: d.Buckets}, d.Labels)
}

// Histogram returns a histogram without labels.
func (d *Definition) Histogram() prometheus.Histogram {
	return prometheus.NewHistogram(prometheus.HistogramOpts{Name: d.Name, Help: d.Help, Buckets: d.Buckets})
}

// Set holds the definitions of a package. The zero value is empty. It is filled while packages are initialised and only
// read from then on.
type Set struct{ definitions []*Definition }

// All returns the definitions in the order in which they were made.
func (s *Set) All() []*Definition { return slices.Clone(s.definitions) }

// Counter defines a counter. Its name ends with _total.
func (s *Set) Counter(name, help string, labels ...string) *Definition {
	return s.add(&Definition{Name: name, Help: help, Type: TypeCounter, Labels: labels})
}

// Gauge defines a gauge.
func (s *Set) Gauge(name, help string, labels ...string) *Definition {
	return s.add(&Definition{Name: name, Help: help, Type: TypeGauge, Labels: labels})
}

// Histogram defines a histogram. Its buckets are upper bounds, in the unit of the name.
func (s *Set) Histogram(name, help string, buckets []float64, labels ...string) *Definition {
	return s.add(&Definition{Name: name, Help: help, Type: TypeHistogram, Labels: labels, Buckets: buckets})
}

func (s *Set) add(d *Definition) *Definition {
	s.definitions = append(s.definitions, d)
	return d
}

// maxLabel bounds the values of labels, in bytes: a target and its namespace have to fit.
const maxLabel = 2*untrusted.MaxName + 1

// Const returns a metric with a value, for collectors. Labels are bounded, since targets may choose them: one that is
// not valid UTF-8 would cause a panic, and one of a megabyte would be sent with each scrape.
func Const(desc *prometheus.Desc, of prometheus.ValueType, value float64, labels ...string) prometheus.Metric {
	bounded := make([]string, len(labels))
	for i, label := range labels {
		bounded[i] = untrusted.Text(label, maxLabel)
	}
	return prometheus.MustNewConstMetric(desc, of, value, bounded...)
}

// Other is the label value for names beyond the limit of Names.
const Other = "other"

// Names bounds the values of a label that others choose, such as field managers: the first names up to a limit are
// kept, later ones become Other. Use NewNames to create it. It is safe for concurrent use.
type Names struct {
	limit int
	mu    sync.RWMutex
	known map[string]struct{}
}

// NewNames returns Names with the given limit.
func NewNames(limit int) *Names {
	return &Names{limit: limit, known: map[string]struct{}{}}
}

// Label returns the value for a name.
func (n *Names) Label(name string) string {
	name = untrusted.Text(name, maxLabel)
	n.mu.RLock()
	_, known := n.known[name]
	n.mu.RUnlock()
	if known {
		return name
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, known := n.known[name]; !known {
		if len(n.known) >= n.limit {
			return Other
		}
		n.known[name] = struct{}{}
	}
	return name
}
