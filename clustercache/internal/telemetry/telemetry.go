package telemetry

import (
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/trellis-hub/trellis/clustercache/internal/connection"
	"github.com/trellis-hub/trellis/clustercache/internal/transport"
	"github.com/trellis-hub/trellis/metrics"
)

// Fleet counts what happens over all targets.
type Fleet struct {
	// Silent counts watches that were opened again, Broken how often calls to a target were stopped for a while, Rewinds
	// how often a target went back in time, and RefusedTransitions events that the state of a target did not allow.
	Silent, Broken, Rewinds, RefusedTransitions prometheus.Counter
	// Traffic and WatchEvents are counted by transports and watches.
	Traffic     transport.Total
	WatchEvents atomic.Uint64

	connects, disconnects, rotations, probes *prometheus.CounterVec

	probeTime       prometheus.Observer
	targetProbeTime *prometheus.HistogramVec // nil if it is switched off
	histograms      []prometheus.Collector
}

// New returns a Fleet. targetHistograms adds histograms of each target.
func New(targetHistograms bool) *Fleet {
	probeTime, callTime := metricProbeTime.Histogram(), metricCallTime.HistogramVec()
	f := &Fleet{
		Silent: metricSilent.Counter(), Broken: metricBreaks.Counter(), Rewinds: metricRewinds.Counter(),
		RefusedTransitions: metricRefusedTransitions.Counter(),

		connects: metricConnects.CounterVec(), disconnects: metricDisconns.CounterVec(),
		rotations: metricRotations.CounterVec(), probes: metricProbes.CounterVec(),
		probeTime: probeTime, histograms: []prometheus.Collector{probeTime, callTime},
	}
	byVerb := make([]prometheus.Observer, len(transport.Verbs()))
	for _, v := range transport.Verbs() {
		if v != transport.VerbWatch {
			byVerb[v] = callTime.WithLabelValues(v.String())
		}
	}
	f.Traffic.Answered = func(v transport.Verb, took time.Duration) { byVerb[v].Observe(took.Seconds()) }
	if targetHistograms {
		f.targetProbeTime = metricTargetProbe.HistogramVec()
		f.histograms = append(f.histograms, f.targetProbeTime)
	}
	return f
}

// Register registers the metrics. snapshot returns what is read when they are collected.
func (f *Fleet) Register(registerer prometheus.Registerer, snapshot func() Snapshot) error {
	for _, collector := range append(f.histograms, f.connects, f.disconnects, f.rotations, f.probes, f.Silent, f.Broken,
		f.Rewinds, f.RefusedTransitions, newCollector(f, snapshot)) {
		if err := registerer.Register(collector); err != nil {
			return err //nolint:wrapcheck // it names the metric
		}
	}
	return nil
}

// Connected counts an attempt to connect, or to continue with a connection that was lost.
func (f *Fleet) Connected(err error) { f.connects.WithLabelValues(outcome(err)).Inc() }

// Rotated counts a change of the credential or address of a connected target.
func (f *Fleet) Rotated(mode string, err error) {
	f.rotations.WithLabelValues(mode, outcome(err)).Inc()
}

// Disconnected counts a connection that was lost or given up.
func (f *Fleet) Disconnected(reason string) { f.disconnects.WithLabelValues(reason).Inc() }

// Probed counts a probe of a target.
func (f *Fleet) Probed(key types.NamespacedName, took time.Duration, err error) {
	f.probes.WithLabelValues(outcome(err)).Inc()
	f.probeTime.Observe(took.Seconds())
	if f.targetProbeTime != nil {
		f.targetProbeTime.WithLabelValues(metrics.TargetName(key)).Observe(took.Seconds())
	}
}

// Forget drops the histogram of a target.
func (f *Fleet) Forget(key types.NamespacedName) {
	if f.targetProbeTime != nil {
		f.targetProbeTime.DeleteLabelValues(metrics.TargetName(key))
	}
}

func outcome(err error) string {
	if err == nil {
		return "ok"
	}
	return connection.ReasonOf(err)
}

// codeLabel is the label for the code of an answer.
func codeLabel(code int) string {
	switch {
	case code == transport.NoAnswer:
		return "none"
	case code < 0:
		return metrics.Other
	}
	return strconv.Itoa(code)
}
