// Package observability tests the chart's dashboards, rules and alerts with a real Prometheus and a real Alertmanager,
// on real control planes and the hub as it ships: "make e2e-observability".
//
// # How it works
//
// A fleet of targets, each of which is reached through a proxy that can cut it off, lies in one control plane, beside
// that of the source. Every test is a situation: it provokes an alert, waits until it fires, reverts what it did, and
// waits until the alert is resolved. At the end, every panel of every dashboard must have had data, and every alert
// must have been seen or be listed with the reason why it cannot be provoked here.
//
// # Trade-offs
//
// Prometheus scrapes once a second instead of every 30, so all times in the rules are divided by 30 (shorten.go); then
// nothing takes longer than two minutes. Thresholds are not changed, but for the time that a change may take. Longer
// times in the rules are tested by promtool, in hack/monitoring.
package observability
