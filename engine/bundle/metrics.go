package bundle

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/trellis-hub/trellis/metrics"
)

// MetricDefinitions are the metrics of this package, which a Cache collects.
var MetricDefinitions = &metrics.Set{}

var (
	metricBytes = MetricDefinitions.Gauge("trellis_bundle_cache_bytes", "Memory that decoded bundles take, estimated.")
	metricKept  = MetricDefinitions.Gauge("trellis_bundle_kept_bytes",
		"Memory of the cached content of Secrets, by which drift is corrected without reading them again, "+
			"estimated.")
	metricEntries = MetricDefinitions.Gauge("trellis_bundle_cache_entries", "Decoded bundles in memory.")
	metricLookups = MetricDefinitions.Counter(
		"trellis_bundle_cache_lookups_total", "Lookups of decoded bundles, by result: hit (in memory) or miss "+
			"(decoded).",
		"result")
	metricEvictions = MetricDefinitions.Counter("trellis_bundle_cache_evictions_total",
		"Decoded bundles that were evicted from the cache, by reason: room (for others) or unused.", "reason")
	metricDecoding = MetricDefinitions.Histogram(
		"trellis_bundle_decode_duration_seconds", "How long it took to decode a bundle.",
		[]float64{0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5})
	metricInUse = MetricDefinitions.Gauge("trellis_bundle_bytes_in_use",
		"Memory of bundles outside the cache, by use: decoding (reserved for Secrets that are read and decoded) or "+
			"runs (decoded bundles that runs use), estimated.", "use")
	metricInUseMost = MetricDefinitions.Gauge("trellis_bundle_bytes_in_use_limit",
		"Bounds of trellis_bundle_bytes_in_use.", "use")
	metricWaiting = MetricDefinitions.Gauge("trellis_bundle_waiting", "Runs that wait for memory for a decoded "+
		"bundle.")
	metricDeferred = MetricDefinitions.Counter("trellis_bundle_deferred_total",
		"Runs that were postponed because there was no memory for a decoded bundle.")
	metricDecoded = MetricDefinitions.Counter("trellis_bundle_decoded_bytes_total",
		"Memory of all bundles that were decoded, estimated, in total.")
)

var (
	descBytes, descKept, descEntries = metricBytes.Desc(), metricKept.Desc(), metricEntries.Desc()
	descLookups, descEvictions       = metricLookups.Desc(), metricEvictions.Desc()

	descInUse, descInUseMost, descWaiting = metricInUse.Desc(), metricInUseMost.Desc(), metricWaiting.Desc()
)

// Describe implements prometheus.Collector.
func (c *Cache) Describe(descriptions chan<- *prometheus.Desc) {
	c.duration.Describe(descriptions)
	c.decoded.Describe(descriptions)
	c.deferred.Describe(descriptions)
	for _, d := range []*prometheus.Desc{
		descBytes, descKept, descEntries, descLookups, descEvictions, descInUse, descInUseMost, descWaiting,
	} {
		descriptions <- d
	}
}

// Collect implements prometheus.Collector.
func (c *Cache) Collect(collected chan<- prometheus.Metric) {
	c.duration.Collect(collected)
	c.decoded.Collect(collected)
	c.deferred.Collect(collected)
	stats := c.Stats()
	collected <- metrics.Const(descBytes, prometheus.GaugeValue, float64(stats.Bytes))
	collected <- metrics.Const(descKept, prometheus.GaugeValue, float64(stats.KeptBytes))
	collected <- metrics.Const(descEntries, prometheus.GaugeValue, float64(stats.Bundles))
	collected <- metrics.Const(descLookups, prometheus.CounterValue, float64(stats.Hits), "hit")
	collected <- metrics.Const(descLookups, prometheus.CounterValue, float64(stats.Misses), "miss")
	collected <- metrics.Const(descEvictions, prometheus.CounterValue, float64(stats.Displaced), "room")
	collected <- metrics.Const(descEvictions, prometheus.CounterValue, float64(stats.Unused), "unused")
	uses := map[string][2]int64{"decoding": {stats.Decoding, c.limits.Decoding}, "runs": {stats.InUse, c.limits.InUse}}
	for use, bytes := range uses {
		collected <- metrics.Const(descInUse, prometheus.GaugeValue, float64(bytes[0]), use)
		collected <- metrics.Const(descInUseMost, prometheus.GaugeValue, float64(bytes[1]), use)
	}
	collected <- metrics.Const(descWaiting, prometheus.GaugeValue, float64(stats.Waiting))
}
