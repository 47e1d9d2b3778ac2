package app

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/controllers"
	"github.com/trellis-hub/trellis/leader"
	"github.com/trellis-hub/trellis/leader/heartbeat"
	"github.com/trellis-hub/trellis/metrics"
	"github.com/trellis-hub/trellis/version"
	"github.com/trellis-hub/trellis/webhooks/server"
)

var metricDefinitions = &metrics.Set{}

var (
	metricBuild = metricDefinitions.Gauge("trellis_build_info",
		"1, with version, commit and date of the build, and the version of Go.",
		"version", "commit", "date", "go_version")
	metricLeader = metricDefinitions.Gauge("trellis_hub_leader", "1 if this replica leads: only the leader writes.")
	metricFenced = metricDefinitions.Counter(
		"trellis_hub_fenced_writes_total",
		"Writes that the fence stopped because this replica could not prove that it leads. A few at the end of a "+
			"term are normal.")
)

// Metrics are the definitions of all metrics of the hub, those of libraries left out.
func Metrics() []*metrics.Definition {
	return slices.Concat(metricDefinitions.All(), heartbeat.MetricDefinitions.All(), clustercache.MetricDefinitions.All(),
		controllers.MetricDefinitions(), server.MetricDefinitions.All())
}

// own are the figures about the process.
type own struct{ leader *leader.Election }

var descBuild, descLeader, descFenced = metricBuild.Desc(), metricLeader.Desc(), metricFenced.Desc()

// Describe implements prometheus.Collector.
func (own) Describe(descriptions chan<- *prometheus.Desc) {
	descriptions <- descBuild
	descriptions <- descLeader
	descriptions <- descFenced
}

// Collect implements prometheus.Collector.
func (o own) Collect(collected chan<- prometheus.Metric) {
	build := version.Get()
	collected <- metrics.Const(descBuild, prometheus.GaugeValue, 1, build.Version, build.Commit, build.Date, build.Go)
	leading := 0.0
	if o.leader.Leading() {
		leading = 1
	}
	collected <- metrics.Const(descLeader, prometheus.GaugeValue, leading)
	collected <- metrics.Const(descFenced, prometheus.CounterValue, float64(o.leader.Fence().Refused()))
}
