package app

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/trellis-hub/trellis/metrics"
)

const (
	// scrapedTargets are those of a large hub, and scrapedValues is how many values every other label has: more than
	// labels of the fleet have together, which are classes, reasons, codes and kinds.
	scrapedTargets = 1000
	scrapedValues  = 3
	// maxScrape bounds the page. Prometheus has no limit of its own, but parses it in every interval.
	maxScrape = 10 << 20
)

// fleet exports every metric of the hub with the series of many targets.
type fleet struct{ histograms bool }

// Describe implements prometheus.Collector; nothing is described, so that nothing is checked twice.
func (fleet) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (f fleet) Collect(collected chan<- prometheus.Metric) {
	for _, d := range Metrics() {
		if d.PerTarget() && d.Type == metrics.TypeHistogram && !f.histograms {
			continue // off unless metrics.targetHistograms is set
		}
		f.series(d, nil, collected)
	}
}

// series exports a metric with all values of the labels after those that are given.
func (f fleet) series(d *metrics.Definition, values []string, collected chan<- prometheus.Metric) {
	if len(values) < len(d.Labels) {
		count := scrapedValues
		switch label := d.Labels[len(values)]; {
		case label == metrics.LabelTarget:
			count = scrapedTargets
		case d.PerTarget() && (label == "version" || label == "cloud_type" || label == "region"):
			count = 1 // of a target, there is one
		case d.PerTarget():
			count = 2
		}
		for i := range count {
			value := fmt.Sprintf("value-of-a-label-%d", i)
			if d.Labels[len(values)] == metrics.LabelTarget {
				value = fmt.Sprintf("shoot--production--cluster-%04d/shoot-%04d", i, i)
			}
			f.series(d, append(values[:len(values):len(values)], value), collected)
		}
		return
	}
	if d.Type == metrics.TypeHistogram {
		buckets := map[float64]uint64{}
		for i, bound := range d.Buckets {
			buckets[bound] = uint64(i * 1234567)
		}
		collected <- prometheus.MustNewConstHistogram(d.Desc(), 123456789, 123456.789, buckets, values...)
		return
	}
	kind := prometheus.GaugeValue
	if d.Type == metrics.TypeCounter {
		kind = prometheus.CounterValue
	}
	collected <- metrics.Const(d.Desc(), kind, 1790000000.123, values...)
}

// scrape asks for the page as Prometheus does that takes no compression.
func scrape(handler http.Handler) *httptest.ResponseRecorder {
	page := httptest.NewRecorder()
	handler.ServeHTTP(page, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	return page
}

func handlerOf(collector prometheus.Collector) http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collector)
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError})
}

// TestAScrapeOfALargeFleetIsBounded: with 1,000 targets, a scrape has fewer than 10 MiB, with histograms of each, too.
func TestAScrapeOfALargeFleetIsBounded(t *testing.T) {
	for name, collector := range map[string]fleet{"as it is": {}, "with histograms of each target": {histograms: true}} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			page := scrape(handlerOf(collector))
			g.Expect(page.Code).To(Equal(http.StatusOK), page.Body.String()[:min(page.Body.Len(), 300)])
			g.Expect(page.Body.Len()).To(And(BeNumerically(">", scrapedTargets*15*50), BeNumerically("<", maxScrape)))
			t.Logf("%d bytes", page.Body.Len())
		})
	}
}

// BenchmarkScrapeOfALargeFleet measures such a scrape. The goal is 1 s.
func BenchmarkScrapeOfALargeFleet(b *testing.B) {
	handler := handlerOf(fleet{})
	bytes := 0
	for b.Loop() {
		bytes = scrape(handler).Body.Len()
	}
	b.ReportMetric(float64(bytes)/(1<<20), "MiB")
}
