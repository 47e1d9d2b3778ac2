package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/trellis-hub/trellis/clustercache/internal/transport"
	"github.com/trellis-hub/trellis/metrics"
)

// Snapshot is what is read when metrics are collected.
type Snapshot struct {
	Targets []Target
	// States counts targets by their state.
	States         map[string]int
	Mappers        int
	MassDisconnect bool
}

// Target is a part of a Snapshot.
type Target struct {
	Key types.NamespacedName
	// Hibernated is true for a target that is meant to be away: it is no reason for an alert.
	Hibernated bool
	// Up is true if calls are possible.
	Up bool
	// RotationFails is true if the registration was changed, and what it says now does not work.
	RotationFails            bool
	Connects                 uint64
	InFlight                 int
	Succeeded, Failed        uint64
	Throttled                time.Duration
	Synced, Absent, Unsynced int           // watches
	Objects                  int           // of watches
	RoundTrip                time.Duration // zero if it is not known, like the times
	LastProbeSuccess         time.Time
	CredentialExpiry         time.Time
}

// collector reads the metrics of each target, and what can be added up from them.
type collector struct {
	fleet    *Fleet
	snapshot func() Snapshot
	descs    map[*metrics.Definition]*prometheus.Desc
}

func newCollector(f *Fleet, snapshot func() Snapshot) collector {
	c := collector{fleet: f, snapshot: snapshot, descs: map[*metrics.Definition]*prometheus.Desc{}}
	for _, d := range []*metrics.Definition{
		metricUp, metricRoundTrip, metricLastSuccess, metricExpiration, metricTargetConns, metricRotationFails,
		metricUnsynced, metricTargetCalls, metricInFlight, metricThrottled, metricTargets, metricRequests, metricBytes,
		metricWatches, metricWatched,
		metricEvents, metricMappers, metricMassDisconnect,
	} {
		c.descs[d] = d.Desc()
	}
	return c
}

// Describe implements prometheus.Collector.
func (c collector) Describe(descriptions chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		descriptions <- d
	}
}

// emit hands on a value of a metric.
type emit func(d *metrics.Definition, value float64, labels ...string)

// Collect implements prometheus.Collector.
func (c collector) Collect(collected chan<- prometheus.Metric) {
	emit := emit(func(d *metrics.Definition, value float64, labels ...string) {
		kind := prometheus.GaugeValue
		if d.Type == metrics.TypeCounter {
			kind = prometheus.CounterValue
		}
		collected <- metrics.Const(c.descs[d], kind, value, labels...)
	})
	now := c.snapshot()
	var synced, absent, unsynced, objects int
	for i := range now.Targets {
		t := &now.Targets[i]
		synced, absent, unsynced, objects = synced+t.Synced, absent+t.Absent, unsynced+t.Unsynced, objects+t.Objects
		t.collect(emit)
	}
	for state, n := range now.States {
		emit(metricTargets, float64(n), state)
	}
	emit(metricWatches, float64(synced), "synced")
	emit(metricWatches, float64(absent), "absent")
	emit(metricWatches, float64(unsynced), "unsynced")
	emit(metricWatched, float64(objects))
	emit(metricEvents, float64(c.fleet.WatchEvents.Load()))
	emit(metricMappers, float64(now.Mappers))
	emit(metricMassDisconnect, truth(now.MassDisconnect))
	received, sent := c.fleet.Traffic.Bytes()
	emit(metricBytes, float64(received), "received")
	emit(metricBytes, float64(sent), "sent")
	c.fleet.Traffic.Each(func(verb transport.Verb, code int, requests uint64) {
		emit(metricRequests, float64(requests), verb.String(), codeLabel(code))
	})
}

func (t *Target) collect(emit emit) {
	name := metrics.TargetName(t.Key)
	emit(metricTargetConns, float64(t.Connects), name)
	emit(metricInFlight, float64(t.InFlight), name)
	emit(metricThrottled, t.Throttled.Seconds(), name)
	emit(metricTargetCalls, float64(t.Succeeded), name, "success")
	emit(metricTargetCalls, float64(t.Failed), name, "error")
	if t.Hibernated {
		return
	}
	emit(metricUp, truth(t.Up), name)
	emit(metricUnsynced, float64(t.Unsynced), name)
	if t.RotationFails {
		emit(metricRotationFails, 1, name)
	}
	if t.RoundTrip > 0 {
		emit(metricRoundTrip, t.RoundTrip.Seconds(), name)
	}
	if !t.LastProbeSuccess.IsZero() {
		emit(metricLastSuccess, float64(t.LastProbeSuccess.Unix()), name)
	}
	if !t.CredentialExpiry.IsZero() {
		emit(metricExpiration, float64(t.CredentialExpiry.Unix()), name)
	}
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
