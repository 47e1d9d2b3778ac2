package clustercache

import (
	"context"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	clientmetrics "k8s.io/client-go/tools/metrics"

	"github.com/trellis-hub/trellis/clustercache/internal/connection"
	"github.com/trellis-hub/trellis/clustercache/internal/transport"
	"github.com/trellis-hub/trellis/metrics"
)

// MetricDefinitions are the metrics of this package.
var MetricDefinitions = &metrics.Set{}

// What is told of each target.
var (
	metricUp = MetricDefinitions.Gauge(
		"trellis_target_up", "1 if calls to the target are possible. Hibernated targets have no such series.",
		metrics.LabelTarget)
	metricRoundTrip = MetricDefinitions.Gauge(
		"trellis_target_round_trip_seconds", "How long the last successful probe took.", metrics.LabelTarget)
	metricLastSuccess = MetricDefinitions.Gauge(
		"trellis_target_last_probe_success_timestamp_seconds",
		"When the target answered a probe last, in seconds since 1970.", metrics.LabelTarget)
	metricExpiration = MetricDefinitions.Gauge(
		"trellis_target_credential_expiration_timestamp_seconds", "When the credential in use ends, in seconds since 1970.",
		metrics.LabelTarget)
	metricTargetConns = MetricDefinitions.Counter(
		"trellis_target_connects_total",
		"How often the target came to be connected. A rotation of its credential is no new connection.", metrics.LabelTarget)
	metricUnsynced = MetricDefinitions.Gauge(
		"trellis_target_watches_unsynced", "Watches in the target that do not show everything.", metrics.LabelTarget)
	metricTargetCalls = MetricDefinitions.Counter("trellis_target_requests_total",
		"Requests to the target, by result: success (Not Found and Conflict among them) or error (any other error, or "+
			"no answer). Probes are not counted.", metrics.LabelTarget, "result")
	metricInFlight = MetricDefinitions.Gauge(
		"trellis_target_requests_in_flight", "Requests that wait for the answer of the target, without watches.",
		metrics.LabelTarget)
	metricThrottled = MetricDefinitions.Counter(
		"trellis_target_throttled_seconds_total",
		"How long requests have waited because of the limits of the target, added up.", metrics.LabelTarget)
	metricTargetProbe = MetricDefinitions.Histogram(
		"trellis_target_probe_duration_seconds",
		"How long probes of the target took, successful or not. Only with metrics.targetHistograms.", probeBuckets,
		metrics.LabelTarget)
)

// What is told of all targets together.
var (
	metricTargets = MetricDefinitions.Gauge(
		"trellis_clustercache_targets", "Registered targets, by the state of their connection.", "state")
	metricConnects = MetricDefinitions.Counter(
		"trellis_clustercache_connects_total", "Attempts to connect to a target, by result: ok or the reason of the failure.",
		"result")
	metricDisconns = MetricDefinitions.Counter(
		"trellis_clustercache_disconnects_total", "Connections that were lost or given up, by reason.", "reason")
	metricRotations = MetricDefinitions.Counter(
		"trellis_clustercache_rotations_total",
		"Changes of the credential or address of a connected target, by mode (token, generation) and result.", "mode",
		"result")
	metricProbes = MetricDefinitions.Counter(
		"trellis_clustercache_probes_total", "Probes of connected targets, by result: ok or the reason of the failure.",
		"result")
	metricProbeTime = MetricDefinitions.Histogram(
		"trellis_clustercache_probe_duration_seconds", "How long probes took, successful or not.", probeBuckets)
	metricRequests = MetricDefinitions.Counter("trellis_clustercache_requests_total",
		"Requests to targets, by verb (APPLY is a server-side apply) and code; the code is none where there was no "+
			"answer. Probes are not counted.", "verb", "code")
	metricCallTime = MetricDefinitions.Histogram(
		"trellis_clustercache_request_duration_seconds",
		"How long requests to targets waited for the begin of their answer, watches and the wait for limits not included.",
		requestBuckets, "verb")
	metricBytes = MetricDefinitions.Counter(
		"trellis_clustercache_transferred_bytes_total", "Bytes on the sockets to targets, by direction: received or sent.",
		"direction")
	metricWatches = MetricDefinitions.Gauge("trellis_clustercache_watches",
		"Streams of objects of all targets, by state: synced or unsynced.", "state")
	metricWatched = MetricDefinitions.Gauge(
		"trellis_clustercache_watched_objects", "Objects that watches keep in memory.")
	metricSilent = MetricDefinitions.Counter(
		"trellis_clustercache_silent_watches_total", "Watches that were opened again because they said nothing for long.")
	metricBreaks = MetricDefinitions.Counter(
		"trellis_clustercache_breaks_total",
		"How often calls to a connected target were stopped for a while, since it had not answered others.")
	metricRewinds = MetricDefinitions.Counter(
		"trellis_clustercache_rewinds_total",
		"How often a target was found to have gone back in time, as when its etcd is restored from a backup.")
	metricRefusedTransitions = MetricDefinitions.Counter(
		"trellis_clustercache_refused_transitions_total",
		"Events that the state of a target did not allow. Each is a fault of the hub.")
	metricEvents = MetricDefinitions.Counter(
		"trellis_clustercache_watch_events_total",
		"Objects that watches have brought, those of their initial lists included.")
	metricBrownout = MetricDefinitions.Gauge(
		"trellis_clustercache_brownout", "1 while many targets are lost together, so that the hub suspects its own network.")
	metricMappers  = MetricDefinitions.Gauge("trellis_clustercache_mappers", "Distinct REST mappers that targets share.")
	probeBuckets   = []float64{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 4}
	requestBuckets = []float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10}
)

// fleet counts what happens over all targets. What is told of each target is read when it is asked for, so that a
// target that is gone leaves no series behind.
type fleet struct {
	connects, disconnects, rotations, probes *prometheus.CounterVec

	silent, broken, rewinds, refusedTransitions prometheus.Counter
	probeTime                                   prometheus.Observer
	targetProbeTime                             *prometheus.HistogramVec // nil if it is switched off
	traffic                                     transport.Total
	watchEvents                                 atomic.Uint64
	histograms                                  []prometheus.Collector
}

func newFleet(targetHistograms bool) *fleet {
	probeTime, callTime := metricProbeTime.Histogram(), metricCallTime.HistogramVec()
	f := &fleet{
		connects: metricConnects.CounterVec(), disconnects: metricDisconns.CounterVec(),
		rotations: metricRotations.CounterVec(), probes: metricProbes.CounterVec(),
		silent: metricSilent.Counter(), broken: metricBreaks.Counter(), rewinds: metricRewinds.Counter(),
		refusedTransitions: metricRefusedTransitions.Counter(),
		probeTime:          probeTime, histograms: []prometheus.Collector{probeTime, callTime},
	}
	byVerb := make([]prometheus.Observer, len(transport.Verbs()))
	for _, v := range transport.Verbs() {
		if v != transport.VerbWatch {
			byVerb[v] = callTime.WithLabelValues(v.String())
		}
	}
	f.traffic.Answered = func(v transport.Verb, took time.Duration) { byVerb[v].Observe(took.Seconds()) }
	if targetHistograms {
		f.targetProbeTime = metricTargetProbe.HistogramVec()
		f.histograms = append(f.histograms, f.targetProbeTime)
	}
	return f
}

func (f *fleet) attempted(mode string, err error) {
	if mode == modeConnect || mode == modeResume {
		f.connects.WithLabelValues(outcome(err)).Inc()
	} else {
		f.rotations.WithLabelValues(mode, outcome(err)).Inc()
	}
}

func (f *fleet) probed(err error) {
	f.probes.WithLabelValues(outcome(err)).Inc()
}

// probeTimeOf returns the histogram of one target, nil if it is switched off.
func (f *fleet) probeTimeOf(key ClusterKey) prometheus.Observer {
	if f.targetProbeTime == nil {
		return nil
	}
	return f.targetProbeTime.WithLabelValues(metrics.TargetName(key))
}

// forget drops the histogram of a target.
func (f *fleet) forget(key ClusterKey) {
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

func (f *fleet) register(registerer prometheus.Registerer, c *Cache) error {
	for _, collector := range append(f.histograms, f.connects, f.disconnects, f.rotations, f.probes, f.silent, f.broken,
		f.rewinds, f.refusedTransitions, newCollector(c)) {
		if err := registerer.Register(collector); err != nil {
			return err
		}
	}
	return nil
}

// collector reads what is told of each target, and what can be added up from that.
type collector struct {
	cache *Cache
	descs map[*metrics.Definition]*prometheus.Desc
}

func newCollector(c *Cache) collector {
	read := collector{cache: c, descs: map[*metrics.Definition]*prometheus.Desc{}}
	for _, d := range []*metrics.Definition{
		metricUp, metricRoundTrip, metricLastSuccess, metricExpiration, metricTargetConns, metricUnsynced, metricTargetCalls,
		metricInFlight, metricThrottled,
		metricTargets, metricRequests, metricBytes, metricWatches, metricWatched, metricEvents, metricMappers, metricBrownout,
	} {
		read.descs[d] = d.Desc()
	}
	return read
}

// Describe implements prometheus.Collector.
func (c collector) Describe(descriptions chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		descriptions <- d
	}
}

// Collect implements prometheus.Collector.
func (c collector) Collect(collected chan<- prometheus.Metric) {
	tell := func(d *metrics.Definition, value float64, labels ...string) {
		kind := prometheus.GaugeValue
		if d.Type == metrics.TypeCounter {
			kind = prometheus.CounterValue
		}
		collected <- metrics.Const(c.descs[d], kind, value, labels...)
	}
	states := map[State]int{StateRefused: 0, StateConnecting: 0, StateConnected: 0, StateDisconnected: 0,
		StateHibernated: 0, StateDraining: 0}
	var synced, unsynced, objects int
	for _, t := range c.cache.all() {
		in := t.inspect()
		states[in.Status.State]++
		missing := 0
		for _, w := range in.Watches {
			objects += w.Objects
			if !w.Synced {
				missing++
			}
		}
		synced, unsynced = synced+len(in.Watches)-missing, unsynced+missing
		t.collect(in, missing, tell)
	}
	states[StateRefused] += len(c.cache.refusals(""))
	for state, n := range states {
		tell(metricTargets, float64(n), string(state))
	}
	tell(metricWatches, float64(synced), "synced")
	tell(metricWatches, float64(unsynced), "unsynced")
	tell(metricWatched, float64(objects))
	tell(metricEvents, float64(c.cache.metrics.watchEvents.Load()))
	tell(metricMappers, float64(c.cache.mappers.Len()))
	suspected := 0.0
	if c.cache.availability.MassDisconnect(c.cache.options.Clock.Now()) {
		suspected = 1
	}
	tell(metricBrownout, suspected)
	received, sent := c.cache.metrics.traffic.Bytes()
	tell(metricBytes, float64(received), "received")
	tell(metricBytes, float64(sent), "sent")
	c.cache.metrics.traffic.Each(func(verb transport.Verb, code int, requests uint64) {
		tell(metricRequests, float64(requests), verb.String(), codeLabel(code))
	})
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

// collect tells of one target.
func (t *target) collect(in Inspection, unsynced int, tell func(
	d *metrics.Definition, value float64, labels ...string)) {
	name := metrics.TargetName(t.key)
	tell(metricTargetConns, float64(t.connects.Load()), name)
	tell(metricInFlight, float64(in.InFlight), name)
	tell(metricThrottled, t.meter.Throttled().Seconds(), name)
	succeeded, failed := t.meter.Requests()
	tell(metricTargetCalls, float64(succeeded), name, "success")
	tell(metricTargetCalls, float64(failed), name, "error")
	if in.Status.State == StateHibernated {
		return // nobody is to be alarmed
	}
	up := 0.0
	if in.Usable {
		up = 1
	}
	tell(metricUp, up, name)
	tell(metricUnsynced, float64(unsynced), name)
	if in.Status.RoundTrip > 0 {
		tell(metricRoundTrip, in.Status.RoundTrip.Seconds(), name)
	}
	if last := in.Health.LastProbeSuccessTime; !last.IsZero() {
		tell(metricLastSuccess, float64(last.Unix()), name)
	}
	if end := in.Status.CredentialExpiry; !end.IsZero() {
		tell(metricExpiration, float64(end.Unix()), name)
	}
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
