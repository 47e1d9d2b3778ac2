// Package monitoring holds the chart's dashboards, rules and inhibition against Prometheus' and Alertmanager's own code. It has
// nothing but tests.
//
//	rules_test.yaml     unit tests of every rule, in promtool's format
//	unit_test.go        runs them as promtool does
//	rules_test.go       every alert is labelled as Gardener wants, has such a test, and an entry in docs/runbooks.md
//	dashboards_test.go  every panel is complete, every query parses, every metric is documented, every link leads somewhere
//	inhibition_test.go  which alert mutes which
//	pages_test.go       the pages for operators name panels, lines of the log and metrics that exist
//
// "make test-monitoring" runs all of it.
//
// # Trade-offs
//
// It is a module of its own, so that the requirements of Prometheus, which are many, do not reach the hub's. The version of
// Prometheus is the last one whose requirements can all be had from the Go module proxy.
//
// The packages of Prometheus are used as libraries, not its commands: those contain the discovery of every cloud, which takes
// many times as long to build.
package monitoring
