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
		"trellis_target_credential_expiration_timestamp_seconds", "When the credential in use expires, in seconds "+
			"since 1970.",
		metrics.LabelTarget)
	metricTargetConns = Definitions.Counter(
		"trellis_target_connects_total",
		"Connections to the target that were established. A rotation of the credential does not count.",
		metrics.LabelTarget)
	metricRotationFails = Definitions.Gauge(
		"trellis_target_rotation_failing",
		"1 if the registration was changed, and its new credential or address does not work. The former one stays in "+
			"use. Absent otherwise.", metrics.LabelTarget)
	metricUnsynced = Definitions.Gauge(
		"trellis_target_watches_unsynced",
		"Watches in the target that are not synced. Kinds that a target does not have to serve, and does not, are "+
			"not counted.",
		metrics.LabelTarget)
	metricTargetCalls = Definitions.Counter("trellis_target_requests_total",
		"Requests to the target, by result: success (Not Found and Conflict among them) or error (any other error, or "+
			"no answer). Probes are not counted.", metrics.LabelTarget, "result")
	metricInFlight = Definitions.Gauge(
		"trellis_target_requests_in_flight", "Requests that wait for an answer of the target, watches excluded.",
		metrics.LabelTarget)
	metricThrottled = Definitions.Counter(
		"trellis_target_throttled_seconds_total",
		"How long the rate limit of the target has delayed requests, in total.", metrics.LabelTarget)
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
		"trellis_clustercache_disconnects_total", "Connections that were lost or closed, by reason.", "reason")
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
		"Requests to targets, by verb (APPLY is a server-side apply) and code (none: no answer). Probes are not "+
			"counted.", "verb", "code")
	metricCallTime = Definitions.Histogram(
		"trellis_clustercache_request_duration_seconds",
		"Time to the first byte of the answer of a target, watches and the delay by the rate limit excluded.",
		requestBuckets, "verb")
	metricBytes = Definitions.Counter(
		"trellis_clustercache_transferred_bytes_total", "Bytes on the sockets to targets, by direction: received or sent.",
		"direction")
	metricWatches = Definitions.Gauge("trellis_clustercache_watches",
		"Watches in all targets, by state: synced, unsynced, or absent (a kind that targets do not have to serve, "+
			"and do not).", "state")
	metricWatched = Definitions.Gauge(
		"trellis_clustercache_watched_objects", "Objects that watches keep in memory.")
	metricSilent = Definitions.Counter(
		"trellis_clustercache_silent_watches_total", "Watches that were opened again because they had sent "+
			"nothing for too long.")
	metricBreaks = Definitions.Counter(
		"trellis_clustercache_breaks_total",
		"How often the circuit breaker of a connected target opened because calls got no answer.")
	metricRewinds = Definitions.Counter(
		"trellis_clustercache_rewinds_total",
		"How often resource versions of a target went back, as when its etcd is restored from a backup.")
	metricRefusedTransitions = Definitions.Counter(
		"trellis_clustercache_refused_transitions_total",
		"Events that the state of a target did not allow. Each is a defect of the hub.")
	metricEvents = Definitions.Counter(
		"trellis_clustercache_watch_events_total",
		"Objects received by watches, initial lists included.")
	metricMassDisconnect = Definitions.Gauge(
		"trellis_clustercache_mass_disconnect",
		"1 while many targets are lost together, and the hub suspects its own network.")
	metricMappers  = Definitions.Gauge("trellis_clustercache_mappers", "Distinct REST mappers that targets share.")
	probeBuckets   = []float64{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 4}
	requestBuckets = []float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10}
)
