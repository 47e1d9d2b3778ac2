package fairqueue

import (
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// figuresOf returns the metrics of the registry as lines "name value" for the class "test", histogram buckets left out.
func figuresOf(g Gomega, registry *prometheus.Registry) map[string]float64 {
	families, err := registry.Gather()
	g.Expect(err).NotTo(HaveOccurred())
	result := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			g.Expect(metric.GetLabel()).To(HaveLen(1))
			g.Expect(metric.GetLabel()[0].GetName()).To(Equal("class"))
			name := strings.TrimPrefix(family.GetName(), "trellis_queue_")
			switch {
			case metric.GetHistogram() != nil:
				result[name+"_count"] = float64(metric.GetHistogram().GetSampleCount())
				result[name+"_sum"] = metric.GetHistogram().GetSampleSum()
			case metric.GetCounter() != nil:
				result[name] = metric.GetCounter().GetValue()
			default:
				result[name] = metric.GetGauge().GetValue()
			}
		}
	}
	return result
}

func TestMetrics(t *testing.T) {
	g := NewWithT(t)
	registry := prometheus.NewRegistry()
	metrics, err := NewMetrics(registry)
	g.Expect(err).NotTo(HaveOccurred())
	q, clock := newTestQueue(t, Options[string]{Metrics: metrics})

	q.Add("a/0")
	q.Add("a/0")
	q.Add("a/1")
	q.Add("a/2")
	q.AddAfter("a/3", time.Hour)
	clock.Step(3 * time.Second)
	g.Expect(take(q)).To(HaveLen(2))
	q.Add("a/0")
	clock.Step(time.Second)

	g.Expect(figuresOf(g, registry)).To(Equal(map[string]float64{
		"adds_total": 4, "depth": 2, "waiting": 0, "seats": 0, "delayed": 1, "in_flight": 2, "flows": 1, "oldest_seconds": 0,
		"longest_run_seconds": 1,
		"wait_seconds_count":  2, "wait_seconds_sum": 6,
	}), "a/2 waits for others of its flow")
	q.Add("b/0")
	clock.Step(2 * time.Second)
	g.Expect(figuresOf(g, registry)).To(And(
		HaveKeyWithValue("oldest_seconds", 2.0), HaveKeyWithValue("depth", 3.0), HaveKeyWithValue("flows", 2.0)))
	q.Done("a/1")
	g.Expect(figuresOf(g, registry)).To(HaveKeyWithValue("oldest_seconds", 6.0), "a/2 lacks nothing but a worker now")
	Yield(q.Context(t.Context(), "a/0"))
	g.Expect(figuresOf(g, registry)).To(And(HaveKeyWithValue("waiting", 1.0), HaveKeyWithValue("in_flight", 1.0)))

	problems, err := testutil.GatherAndLint(registry)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(problems).To(BeEmpty())
}

func TestMetricsGoOnWhenAQueueIsReplaced(t *testing.T) {
	g := NewWithT(t)
	registry := prometheus.NewRegistry()
	metrics, err := NewMetrics(registry)
	g.Expect(err).NotTo(HaveOccurred())

	old, _ := newTestQueue(t, Options[string]{Metrics: metrics})
	old.Add("a/0")
	replacement, _ := newTestQueue(t, Options[string]{Metrics: metrics})
	old.ShutDown()
	replacement.Add("a/0")
	g.Expect(figuresOf(g, registry)).To(And(HaveKeyWithValue("adds_total", 2.0), HaveKeyWithValue("depth", 1.0)))

	replacement.ShutDown()
	g.Expect(figuresOf(g, registry)).NotTo(HaveKey("depth"))
}

func TestIdleAndLongestItems(t *testing.T) {
	g := NewWithT(t)
	metrics, err := NewMetrics(prometheus.NewRegistry())
	g.Expect(err).NotTo(HaveOccurred())
	_, _, queues := metrics.Idle()
	g.Expect(queues).To(BeZero())

	q, clock := newTestQueue(t, Options[string]{Metrics: metrics, MaxInFlight: limit(5), Workers: 2})
	longest := func() time.Duration { return q.measure().longest }
	q.Add("a/0")
	added := clock.Now()
	clock.Step(time.Minute)
	_, since, queues := metrics.Idle()
	g.Expect(since).To(Equal(added))
	g.Expect(queues).To(Equal(1))
	g.Expect(longest()).To(BeZero(), "an item that waits is not being worked on")
	g.Expect(take(q)).To(Equal([]string{"a/0"}))
	clock.Step(time.Minute)
	q.Add("b/0")
	g.Expect(take(q)).To(Equal([]string{"b/0"}))
	clock.Step(time.Second)
	g.Expect(longest()).To(Equal(61 * time.Second))
	_, since, _ = metrics.Idle()
	g.Expect(since).To(BeZero())
	q.Done("a/0")
	g.Expect(longest()).To(Equal(time.Second))
	q.Done("b/0")
	g.Expect(longest()).To(BeZero())
	q.ShutDown()
	_, _, queues = metrics.Idle()
	g.Expect(queues).To(BeZero())
}

func TestMetricsCannotBeRegisteredTwice(t *testing.T) {
	g := NewWithT(t)
	registry := prometheus.NewRegistry()
	_, err := NewMetrics(registry)
	g.Expect(err).NotTo(HaveOccurred())
	_, err = NewMetrics(registry)
	g.Expect(err).To(MatchError(HavePrefix("register queue metrics: ")))
}

func TestSnapshots(t *testing.T) {
	g := NewWithT(t)
	figures, err := NewMetrics(prometheus.NewRegistry())
	g.Expect(err).NotTo(HaveOccurred())
	served := map[string]time.Duration{}
	q, clock := newTestQueue(t,
		Options[string]{Metrics: figures, Served: func(item string, wait time.Duration) { served[item] = wait }})
	q.Add("a/0")
	q.Add("a/1")
	q.Add("a/2")
	q.AddAfter("b/0", time.Hour)
	clock.Step(3 * time.Second)
	take(q)
	clock.Step(time.Second)

	g.Expect(figures.Snapshots()).To(Equal([]Snapshot{{
		Class: "test", Depth: 1, Delayed: 1, InFlight: 2,
		Flows: []Flow{{Name: "a", Ready: 1, InFlight: 2, Oldest: 4 * time.Second, LongestRun: time.Second}},
	}}))
	g.Expect(served).To(Equal(map[string]time.Duration{"a/0": 3 * time.Second, "a/1": 3 * time.Second}))
}
