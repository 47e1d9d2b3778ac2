package fairqueue

import (
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics are the figures of all queues of a process, told apart by the label "class". Make them with NewMetrics; nil is
// fine where no figures are wanted.
//
// Counters and the histogram go on if a queue is replaced by one of the same name, as when leadership is lost and won
// again. Gauges are read when they are asked for; that takes one pass over the entries of each queue.
type Metrics struct {
	adds *prometheus.CounterVec
	wait *prometheus.HistogramVec

	mutex  sync.Mutex
	queues map[string]measured
}

// measured is a queue as Metrics see it.
type measured interface {
	measure() figures
}

// figures are the gauges of a queue at one moment.
type figures struct {
	depth, parked, delayed, inFlight, lanes int
	oldest                                  time.Duration
	// longest is how long the item has been worked on that was handed out first.
	longest time.Duration
}

// The gauges of a queue.
var (
	depthDesc    = gaugeDesc("depth", "Items that wait for a worker.")
	parkedDesc   = gaugeDesc("parked", "Items whose target is not served at present.")
	delayedDesc  = gaugeDesc("delayed", "Items that wait for their time.")
	inFlightDesc = gaugeDesc("in_flight", "Items that are being worked on.")
	lanesDesc    = gaugeDesc("lanes", "Targets with items that wait or are being worked on, and parked ones.")
	oldestDesc   = gaugeDesc("oldest_seconds", "How long the item that waits longest for a worker has been waiting.")
)

func gaugeDesc(name, help string) *prometheus.Desc {
	return prometheus.NewDesc("trellis_queue_"+name, help, []string{"class"}, nil)
}

// NewMetrics returns the figures of queues still to come and registers them.
func NewMetrics(registerer prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		adds: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "trellis_queue_adds_total",
			Help: "Items that became ready to be worked on, not counting those that were already.",
		}, []string{"class"}),
		wait: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "trellis_queue_wait_seconds",
			Help:    "How long items waited for a worker, without the time their target was not served.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 4, 12), // 0.1 ms to 7 min.
		}, []string{"class"}),
		queues: map[string]measured{},
	}
	if err := registerer.Register(m); err != nil {
		return nil, fmt.Errorf("register queue metrics: %w", err)
	}
	return m, nil
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(descs chan<- *prometheus.Desc) {
	m.adds.Describe(descs)
	m.wait.Describe(descs)
	for _, desc := range []*prometheus.Desc{depthDesc, parkedDesc, delayedDesc, inFlightDesc, lanesDesc, oldestDesc} {
		descs <- desc
	}
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(metrics chan<- prometheus.Metric) {
	m.adds.Collect(metrics)
	m.wait.Collect(metrics)

	m.mutex.Lock()
	defer m.mutex.Unlock()
	for name, queue := range m.queues {
		figures := queue.measure()
		gauge := func(desc *prometheus.Desc, value float64) {
			metrics <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, name)
		}
		gauge(depthDesc, float64(figures.depth))
		gauge(parkedDesc, float64(figures.parked))
		gauge(delayedDesc, float64(figures.delayed))
		gauge(inFlightDesc, float64(figures.inFlight))
		gauge(lanesDesc, float64(figures.lanes))
		gauge(oldestDesc, figures.oldest.Seconds())
	}
}

// Longest returns how long the item has been worked on that was handed out first, of all queues, and the class of its queue.
// It also returns how many queues there are; one that was shut down is none.
func (m *Metrics) Longest() (class string, longest time.Duration, queues int) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	for name, queue := range m.queues {
		if figures := queue.measure(); class == "" || figures.longest > longest {
			class, longest = name, figures.longest
		}
	}
	return class, longest, len(m.queues)
}

// attach makes a queue part of the figures, in place of an older one of the same name.
func (m *Metrics) attach(name string, queue measured) instruments {
	if m == nil {
		return instruments{}
	}
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.queues[name] = queue
	return instruments{adds: m.adds.WithLabelValues(name), wait: m.wait.WithLabelValues(name)}
}

// detach takes a queue out of the figures, unless another one has taken its place.
func (m *Metrics) detach(name string, queue measured) {
	if m == nil {
		return
	}
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if m.queues[name] == queue {
		delete(m.queues, name)
	}
}

// instruments are what one queue counts as it goes. The zero value counts nothing.
type instruments struct {
	adds prometheus.Counter
	wait prometheus.Observer
}

func (i instruments) added() {
	if i.adds != nil {
		i.adds.Inc()
	}
}

func (i instruments) handedOut(wait time.Duration) {
	if i.wait != nil {
		i.wait.Observe(wait.Seconds())
	}
}

// measure returns the gauges of the queue.
func (q *Queue[R]) measure() figures {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	result := figures{delayed: q.delayed.len(), inFlight: len(q.inFlight), lanes: len(q.lanes)}
	now := q.options.Clock.Now()
	for _, f := range q.inFlight {
		result.longest = max(result.longest, now.Sub(f.since))
	}
	for _, e := range q.entries {
		switch {
		case e.held:
			result.depth++
		case e.lane == nil:
		case e.lane.parked:
			result.parked++
		default:
			result.depth++
			result.oldest = max(result.oldest, now.Sub(e.lane.waitingSince(e)))
		}
	}
	return result
}
