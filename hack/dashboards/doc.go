// Command dashboards writes the dashboards of the chart: charts/trellis/monitoring/dashboards/*.json for Grafana, and
// charts/trellis/monitoring/plutono/*.json for Plutono, Gardener's fork of Grafana 7.5. "make generate" runs it.
//
//	go run ./hack/dashboards charts/trellis/monitoring
//
// # How it works
//
// dashboard.go says what a dashboard is made of and how it becomes JSON; fleet.go, target.go, hub.go, drift.go,
// connectivity.go and webhooks.go each describe one. Every dashboard begins with the same row about the hub itself,
// as Gardener asks for. The tests that read the JSON are in hack/monitoring, which has the parser of Prometheus:
// every panel has a title, a unit and a description, every query parses, and every metric exists.
//
// # Trade-offs
//
// Both flavours come from one description. What Plutono does not know, state timelines and heat maps, is a timeseries
// there.
//
// Every query is restricted to the hub that people chose by the variables cluster and job, which ofHub adds: several
// hubs may share a Prometheus, and their targets may have the same names.
//
// The Grafana Foundation SDK has types for all of it, for about as many lines as there are here, and none for Plutono.
package main
