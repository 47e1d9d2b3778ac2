package clustercache

import (
	"context"

	clientmetrics "k8s.io/client-go/tools/metrics"

	"github.com/trellis-hub/trellis/clustercache/internal/telemetry"
)

// MetricDefinitions are the metrics of this package.
var MetricDefinitions = telemetry.Definitions

// measure returns what is read of the cache when metrics are collected.
func (c *Cache) measure() telemetry.Snapshot {
	targets := c.all()
	now := telemetry.Snapshot{
		Targets: make([]telemetry.Target, len(targets)),
		States: map[string]int{
			string(StateRefused): len(c.refusals("")), string(StateConnecting): 0, string(StateConnected): 0,
			string(StateDisconnected): 0, string(StateHibernated): 0, string(StateDraining): 0,
		},
		Mappers:        c.mappers.Len(),
		MassDisconnect: c.availability.MassDisconnect(c.options.Clock.Now()),
	}
	for i, t := range targets {
		in := t.inspect()
		now.Targets[i] = t.measure(&in)
		now.States[string(in.Status.State)]++
	}
	return now
}

func (t *target) measure(in *Inspection) telemetry.Target {
	m := telemetry.Target{
		Key: t.key, Hibernated: in.Status.State == StateHibernated, Up: in.Usable, Connects: t.connects.Load(),
		InFlight: in.InFlight, Succeeded: in.Succeeded, Failed: in.Failed, Throttled: t.meter.Throttled(),
		RoundTrip: in.Status.RoundTrip, LastProbeSuccess: in.Health.LastProbeSuccessTime,
		CredentialExpiry: in.Status.CredentialExpiry, RotationFails: in.Status.PendingReason != "",
	}
	for _, w := range in.Watches {
		m.Objects += w.Objects
		switch {
		case w.Synced:
			m.Synced++
		case w.Absent:
			m.Absent++
		default:
			m.Unsynced++
		}
	}
	return m
}

// MergeHostsInClientMetrics makes client-go's request counters say "target" instead of the host for every host but
// those given. They have a series for each host, which are never removed. Call it once, before any client is built.
func MergeHostsInClientMetrics(keep ...string) {
	kept := map[string]bool{}
	for _, host := range keep {
		kept[host] = true
	}
	clientmetrics.RequestResult = mergedHosts{clientmetrics.RequestResult, kept}
}

type mergedHosts struct {
	next clientmetrics.ResultMetric
	keep map[string]bool
}

// Increment implements client-go's ResultMetric.
func (m mergedHosts) Increment(ctx context.Context, code, method, host string) {
	if !m.keep[host] {
		host = "target"
	}
	m.next.Increment(ctx, code, method, host)
}
