// Package observability tests the chart's dashboards, rules and alerts with a real Prometheus and a real Alertmanager, on real
// control planes and the hub as it ships: "make e2e-observability".
//
// # How it works
//
// A fleet of targets, each of which is reached through a proxy that can cut it off, lies in one control plane, beside that of the
// source. Every test is a situation: it provokes an alert, waits until it fires, mends what it did, and waits until the alert is
// over. At the end, every panel of every dashboard must have had data, and every alert must have been seen or be listed with the
// reason why it cannot be provoked here.
//
// # Trade-offs
//
// Prometheus looks once a second instead of every 30, so all times in the rules are divided by 30 (shorten.go) and otherwise
// left as they are; nothing takes longer than two minutes then. Thresholds are not changed. What the rules say of longer times is
// tested by promtool, in hack/monitoring.
package observability
