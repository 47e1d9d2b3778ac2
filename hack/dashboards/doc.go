// Command dashboards writes the dashboards of the chart: charts/trellis/monitoring/dashboards/*.json. "make generate" runs it.
//
//	go run ./hack/dashboards charts/trellis/monitoring/dashboards
//
// # How it works
//
// dashboard.go says what a dashboard is made of and how it becomes JSON; fleet.go, target.go, hub.go, drift.go and
// connectivity.go each describe one. Every dashboard begins with the same row about the hub itself, as Gardener asks for. The
// tests that read the JSON are in hack/monitoring, which has the parser of Prometheus: every panel has a title, a unit and a
// description, every query parses, and every metric exists.
//
// # Trade-offs
//
// The JSON is that of Grafana 7.5 (schema version 27), because Plutono, Gardener's fork, stopped there. Later versions of
// Grafana read it and migrate it as they load it. So only panel types that both know are used: stat, timeseries, table, bargauge
// and row. Not graph and not heatmap, which later ones replaced.
package main
