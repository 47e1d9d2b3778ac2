package fairqueue

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/trellis-hub/trellis/metrics"
)

// Metrics are the figures of all queues of a process, distinguished by the label "class". Make them with NewMetrics;
// nil is fine where no figures are wanted.
//
// Counters and the histogram continue if a queue is replaced by one of the same name, as when leadership is lost and
// won again. Gauges are read when they are asked for; that takes one pass over the entries of each queue.
type Metrics struct {
	adds *prometheus.CounterVec
	wait *prometheus.HistogramVec

	mutex  sync.Mutex
	queues map[string]measured
}

// measured is a queue as Metrics see it.
type measured interface {
	measure() figures
	idleFrom() time.Time
	inFlows() []Flow
}

// figures are the gauges of a queue at one moment.
type figures struct {
	depth, delayed, inFlight, waiting, flows, seats int
	oldest                                          time.Duration
	// longest is how long the item has been worked on that was handed out first.
	longest time.Duration
}

// MetricDefinitions are the metrics of this package.
var MetricDefinitions = &metrics.Set{}

var (
	metricDepth   = MetricDefinitions.Gauge("trellis_queue_depth", "Items that wait for a worker.", "class")
	metricDelayed = MetricDefinitions.Gauge("trellis_queue_delayed", "Items that wait for their backoff or their "+
		"next resync.", "class")
	metricInFlight = MetricDefinitions.Gauge("trellis_queue_in_flight", "Items that are being worked on.", "class")
	metricWaiting  = MetricDefinitions.Gauge("trellis_queue_waiting",
		"Items that are being worked on and have released their seat, because they wait for their targets, or "+
			"did.", "class")
	metricSeats = MetricDefinitions.Gauge("trellis_queue_seats",
		"How many items may have a seat at a time: concurrentSyncs of the class. Zero: any number.", "class")
	metricFlows = MetricDefinitions.Gauge(
		"trellis_queue_flows", "Targets with items that wait or are being worked on.", "class")
	metricOldest = MetricDefinitions.Gauge("trellis_queue_oldest_seconds",
		"How long the oldest item has waited for a worker. Items that wait for others of their target, and "+
			"periodic resyncs, are excluded.", "class")
	metricLongest = MetricDefinitions.Gauge(
		"trellis_queue_longest_run_seconds", "How long the oldest run has taken so far.", "class")
	metricAdds = MetricDefinitions.Counter(
		"trellis_queue_adds_total", "Items that became ready to be worked on, not counting those that were already.", "class")
	metricWait = MetricDefinitions.Histogram("trellis_queue_wait_seconds",
		"How long items waited for a worker. Periodic resyncs are excluded.",
		prometheus.ExponentialBuckets(0.0001, 4, 12), "class") // 0.1 ms to 7 min
)

// gauges are read when they are asked for.
var gauges = []struct {
	desc *prometheus.Desc
	read func(figures) float64
}{
	{metricDepth.Desc(), func(f figures) float64 { return float64(f.depth) }},
	{metricDelayed.Desc(), func(f figures) float64 { return float64(f.delayed) }},
	{metricInFlight.Desc(), func(f figures) float64 { return float64(f.inFlight) }},
	{metricWaiting.Desc(), func(f figures) float64 { return float64(f.waiting) }},
	{metricSeats.Desc(), func(f figures) float64 { return float64(f.seats) }},
	{metricFlows.Desc(), func(f figures) float64 { return float64(f.flows) }},
	{metricOldest.Desc(), func(f figures) float64 { return f.oldest.Seconds() }},
	{metricLongest.Desc(), func(f figures) float64 { return f.longest.Seconds() }},
}

// NewMetrics returns the figures of queues still to come and registers them.
func NewMetrics(registerer prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{adds: metricAdds.CounterVec(), wait: metricWait.HistogramVec(), queues: map[string]measured{}}
	if err := registerer.Register(m); err != nil {
		return nil, fmt.Errorf("register queue metrics: %w", err)
	}
	return m, nil
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(descs chan<- *prometheus.Desc) {
	m.adds.Describe(descs)
	m.wait.Describe(descs)
	for _, g := range gauges {
		descs <- g.desc
	}
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(collected chan<- prometheus.Metric) {
	m.adds.Collect(collected)
	m.wait.Collect(collected)

	m.mutex.Lock()
	defer m.mutex.Unlock()
	for name, queue := range m.queues {
		figures := queue.measure()
		for _, g := range gauges {
			collected <- metrics.Const(g.desc, prometheus.GaugeValue, g.read(figures), name)
		}
	}
}

// Idle returns since when a queue has had both an item that it could hand out and a free worker, without handing it
// out; of several queues, the earliest such time; zero if there is none. It also returns how many queues there are; one
// that was shut down is none.
func (m *Metrics) Idle() (class string, since time.Time, queues int) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	for name, queue := range m.queues {
		if idle := queue.idleFrom(); !idle.IsZero() && (since.IsZero() || idle.Before(since)) {
			class, since = name, idle
		}
	}
	return class, since, len(m.queues)
}

// Flow is what a queue has for one target at one moment.
type Flow struct {
	// Name is what Options.Flow returned.
	Name string
	// Ready items wait for a worker, InFlight ones are being worked on, Waiting ones of them without a seat.
	Ready, InFlight, Waiting int
	// Oldest is the longest time for which an item has waited, be it for a worker or for others of the flow; zero if none
	// does. Those in the background are left out.
	Oldest time.Duration
	// LongestRun is for how long the item has been worked on that was handed out first; zero if none is.
	LongestRun time.Duration
}

// Snapshot is what a queue holds at one moment.
type Snapshot struct {
	// Class is the name of the queue.
	Class string
	// Depth items wait for a worker, and Delayed ones for their time; InFlight ones are being worked on, Waiting ones of
	// them without a seat.
	Depth, Delayed, InFlight, Waiting int
	// Oldest is the longest time for which an item has waited for a worker. Those that wait for others of their flow are
	// left out, for no worker would help them, and those in the background.
	Oldest time.Duration
	Flows  []Flow
}

// Snapshots returns what the queues hold, in the order of their names.
func (m *Metrics) Snapshots() []Snapshot {
	m.mutex.Lock()
	queues := maps.Clone(m.queues)
	m.mutex.Unlock()
	all := make([]Snapshot, 0, len(queues))
	for _, name := range slices.Sorted(maps.Keys(queues)) {
		f := queues[name].measure()
		all = append(all, Snapshot{
			Class: name, Depth: f.depth, Delayed: f.delayed, InFlight: f.inFlight, Waiting: f.waiting, Oldest: f.oldest,
			Flows: queues[name].inFlows(),
		})
	}
	return all
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
	now := q.options.Clock.Now()
	result := figures{depth: q.ready, delayed: q.delayed.len(), inFlight: len(q.inFlight),
		waiting: len(q.inFlight) - q.seated, flows: len(q.flows), seats: q.options.Seats}
	for _, w := range q.inFlight {
		result.longest = max(result.longest, now.Sub(w.since))
	}
	for _, f := range q.flows {
		if f.inFlight < q.maxInFlight(f) {
			result.oldest = max(result.oldest, f.oldest(now))
		}
	}
	return result
}

// idleFrom is idleSince for others than the queue.
func (q *Queue[R]) idleFrom() time.Time {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	return q.idleSince()
}

// inFlows returns the flows, by name.
func (q *Queue[R]) inFlows() []Flow {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	now := q.options.Clock.Now()
	longest := make(map[*flow[R]]time.Duration, len(q.inFlight))
	for _, w := range q.inFlight {
		longest[w.flow] = max(longest[w.flow], now.Sub(w.since))
	}
	flows := make([]Flow, 0, len(q.flows))
	for _, f := range q.flows {
		flows = append(flows, Flow{Name: f.name, Ready: f.ready.len(), InFlight: f.inFlight,
			Waiting: f.inFlight - f.seated, Oldest: f.oldest(now), LongestRun: longest[f]})
	}
	slices.SortFunc(flows, func(a, b Flow) int { return strings.Compare(a.Name, b.Name) })
	return flows
}
