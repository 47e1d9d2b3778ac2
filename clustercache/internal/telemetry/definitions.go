package telemetry

import "github.com/trellis-hub/trellis/metrics"

// Definitions are the metrics of package clustercache.
var Definitions = &metrics.Set{}

// Metrics of each target.
var (
	metricUp = Definitions.Gauge(
		"trellis_target_up", "1 if calls to the target are possible. Hibernated targets have no such series.",
		metrics.LabelTarget)
	metricRoundTrip = Definitions.Gauge(
		"trellis_target_round_trip_seconds", "How long the last successful probe took.", metrics.LabelTarget)
	metricLastSuccess = Definitions.Gauge(
		"trellis_target_last_probe_success_timestamp_seconds",
		"When the target answered a probe last, in seconds since 1970.", metrics.LabelTarget)
	metricExpiration = Definitions.Gauge(
		"trellis_target_credential_expiration_timestamp_seconds", "When the credential in use ends, in seconds since 1970.",
		metrics.LabelTarget)
	metricTargetConns = Definitions.Counter(
		"trellis_target_connects_total",
		"How often the target came to be connected. A rotation of its credential is no new connection.", metrics.LabelTarget)
	metricUnsynced = Definitions.Gauge(
		"trellis_target_watches_unsynced",
		"Watches in the target that do not show everything. Those of kinds that it may do without, and does, are not "+
			"counted.",
		metrics.LabelTarget)
	metricTargetCalls = Definitions.Counter("trellis_target_requests_total",
		"Requests to the target, by result: success (Not Found and Conflict among them) or error (any other error, or "+
			"no answer). Probes are not counted.", metrics.LabelTarget, "result")
	metricInFlight = Definitions.Gauge(
		"trellis_target_requests_in_flight", "Requests that wait for the answer of the target, without watches.",
		metrics.LabelTarget)
	metricThrottled = Definitions.Counter(
		"trellis_target_throttled_seconds_total",
		"How long requests have waited because of the limits of the target, added up.", metrics.LabelTarget)
	metricTargetProbe = Definitions.Histogram(
		"trellis_target_probe_duration_seconds",
		"How long probes of the target took, successful or not. Only with metrics.targetHistograms.", probeBuckets,
		metrics.LabelTarget)
)

// Metrics of all targets together.
var (
	metricTargets = Definitions.Gauge(
		"trellis_clustercache_targets", "Registered targets, by the state of their connection.", "state")
	metricConnects = Definitions.Counter(
		"trellis_clustercache_connects_total", "Attempts to connect to a target, by result: ok or the reason of the failure.",
		"result")
	metricDisconns = Definitions.Counter(
		"trellis_clustercache_disconnects_total", "Connections that were lost or given up, by reason.", "reason")
	metricRotations = Definitions.Counter(
		"trellis_clustercache_rotations_total",
		"Changes of the credential or address of a connected target, by mode (token, generation) and result.", "mode",
		"result")
	metricProbes = Definitions.Counter(
		"trellis_clustercache_probes_total", "Probes of connected targets, by result: ok or the reason of the failure.",
		"result")
	metricProbeTime = Definitions.Histogram(
		"trellis_clustercache_probe_duration_seconds", "How long probes took, successful or not.", probeBuckets)
	metricRequests = Definitions.Counter("trellis_clustercache_requests_total",
		"Requests to targets, by verb (APPLY is a server-side apply) and code; the code is none where there was no "+
			"answer. Probes are not counted.", "verb", "code")
	metricCallTime = Definitions.Histogram(
		"trellis_clustercache_request_duration_seconds",
		"How long requests to targets waited for the begin of their answer, watches and the wait for limits not included.",
		requestBuckets, "verb")
	metricBytes = Definitions.Counter(
		"trellis_clustercache_transferred_bytes_total", "Bytes on the sockets to targets, by direction: received or sent.",
		"direction")
	metricWatches = Definitions.Gauge("trellis_clustercache_watches",
		"Streams of objects of all targets, by state: synced, absent (of a kind that targets may do without, where "+
			"they do) or unsynced.", "state")
	metricWatched = Definitions.Gauge(
		"trellis_clustercache_watched_objects", "Objects that watches keep in memory.")
	metricSilent = Definitions.Counter(
		"trellis_clustercache_silent_watches_total", "Watches that were opened again because they were silent for long.")
	metricBreaks = Definitions.Counter(
		"trellis_clustercache_breaks_total",
		"How often calls to a connected target were stopped for a while, since it had not answered others.")
	metricRewinds = Definitions.Counter(
		"trellis_clustercache_rewinds_total",
		"How often a target was found to have gone back in time, as when its etcd is restored from a backup.")
	metricRefusedTransitions = Definitions.Counter(
		"trellis_clustercache_refused_transitions_total",
		"Events that the state of a target did not allow. Each is a fault of the hub.")
	metricEvents = Definitions.Counter(
		"trellis_clustercache_watch_events_total",
		"Objects that watches have brought, those of their initial lists included.")
	metricMassDisconnect = Definitions.Gauge(
		"trellis_clustercache_mass_disconnect",
		"1 while many targets are lost together, so that the hub suspects its own network.")
	metricMappers  = Definitions.Gauge("trellis_clustercache_mappers", "Distinct REST mappers that targets share.")
	probeBuckets   = []float64{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 4}
	requestBuckets = []float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10}
)
