package main

// hubRow is the first row of every dashboard.
func hubRow() row {
	return row{title: "The hub", panels: []panel{
		{
			kind: stat, title: "Up", unit: "none", bad: 1, badBelow: true, drill: toHub,
			description: "Replicas of the hub that Prometheus reaches. One of them leads, the others wait.",
			queries:     []query{{expr: `sum(up{job="trellis"})`, legend: "replicas"}},
		},
		{
			kind: stat, title: "CPU", unit: "none", drill: toHub,
			description: "Processors that all replicas together keep busy.",
			queries:     []query{{expr: `sum(rate(process_cpu_seconds_total{job="trellis"}[$__rate_interval]))`, legend: "cores"}},
		},
		{
			kind: stat, title: "Memory", unit: "bytes", drill: toHub,
			description: "Resident memory of the largest replica.",
			queries:     []query{{expr: `max(process_resident_memory_bytes{job="trellis"})`, legend: "resident"}},
		},
		{
			kind: stat, title: "Network", unit: "Bps", drill: toHub,
			description: "What the hub exchanges with all targets and the source cluster, both ways.",
			queries: []query{{
				expr:   `sum(rate(process_network_receive_bytes_total{job="trellis"}[$__rate_interval])) + sum(rate(process_network_transmit_bytes_total{job="trellis"}[$__rate_interval]))`,
				legend: "bytes",
			}},
		},
	}}
}

func hub() dashboard {
	return dashboard{
		uid: "trellis-hub", title: "Trellis / Hub performance", category: "performance",
		description: "How well the hub itself does: leadership, queues, latencies, caches and what it costs.",
		rows: []row{
			{title: "Life", panels: []panel{
				{
					kind: timeseries, title: "Leader", unit: "none", width: 8,
					description: "Replicas that lead. It must be one; a gap is the time of a fail-over.",
					queries:     []query{{expr: `sum(trellis_hub_leader)`, legend: "leaders"}},
				},
				{
					kind: timeseries, title: "Age of the heartbeat", unit: "s", width: 8,
					description: "How long ago the leader renewed the Lease by which outside observers see that it works.",
					queries:     []query{{expr: `time() - max(trellis_hub_heartbeat_timestamp_seconds)`, legend: "age"}},
				},
				{
					kind: timeseries, title: "Stuck loop", unit: "s", width: 8,
					description: "How long a loop of the hub has made no progress. Zero is well; anything else fails /healthz.",
					queries:     []query{{expr: `max by (instance) (trellis_hub_loop_stuck_seconds)`, legend: "{{instance}}"}},
				},
				{
					kind: timeseries, title: "Fenced writes", unit: "short",
					description: "Writes within an hour that a replica did not send, because it did not provably lead any " +
						"longer. A few are usual at the end of a term.",
					queries: []query{{expr: `sum by (instance) (increase(trellis_hub_fenced_writes_total[1h]))`,
						legend: "{{instance}}"}},
				},
				{
					kind: table, title: "What runs", unit: "none", width: 12,
					description: "Version of each replica, and of the Go that it was built with.",
					queries:     []query{{expr: `max by (instance, version, go_version) (trellis_build_info)`, legend: "Replicas", unit: "none"}},
				},
			}},
			{title: "Queues", panels: []panel{
				{
					kind: timeseries, title: "Queue depth", unit: "short",
					description: "ManagedResources that wait for a worker, by class. Those of targets that are down are not among them.",
					queries:     []query{{expr: `sum by (class) (trellis_queue_depth)`, legend: "{{class}}"}},
				},
				{
					kind: timeseries, title: "Waiting for their time", unit: "short",
					description: "ManagedResources that are looked at again later, by class: for the resync, or after a pause because something failed.",
					queries:     []query{{expr: `sum by (class) (trellis_queue_delayed)`, legend: "{{class}}"}},
				},
				{
					kind: timeseries, title: "Targets with work", unit: "short",
					description: "Targets with ManagedResources that wait or are being worked on, by class.",
					queries:     []query{{expr: `sum by (class) (trellis_queue_flows)`, legend: "{{class}}"}},
				},
				{
					kind: timeseries, title: "Queue wait", unit: "s",
					description: "How long ManagedResources wait for a worker: the middle and the slowest hundredth, by class.",
					queries: []query{
						{expr: `class:trellis_queue_wait_seconds:p99_5m`, legend: "{{class}} p99"},
						{expr: `histogram_quantile(0.5, sum by (class, le) (rate(trellis_queue_wait_seconds_bucket[$__rate_interval])))`, legend: "{{class}} p50"},
					},
				},
				{
					kind: timeseries, title: "Busy workers", unit: "short",
					description: "ManagedResources that are being worked on, by class. At most concurrentSyncs of them " +
						"compute, from their start until they first wait for their target. The others wait for their targets, or did, and hold no seat.",
					queries: []query{
						{expr: `sum by (class) (trellis_queue_in_flight - trellis_queue_waiting)`, legend: "{{class}} computing"},
						{expr: `sum by (class) (trellis_queue_waiting)`, legend: "{{class}} waiting"},
					},
				},
				{
					kind: timeseries, title: "Longest run", unit: "s",
					description: "How long the worker that has been busy longest has had the same ManagedResource.",
					queries:     []query{{expr: `max by (class) (trellis_queue_longest_run_seconds)`, legend: "{{class}}"}},
				},
			}},
			{title: "Room left", panels: []panel{
				{
					kind: timeseries, title: "Memory that is used", unit: "percentunit", width: 8, bad: 0.9,
					description: "Share of GOMEMLIMIT that each replica has resident. At the whole of it, garbage is " +
						"collected all the time.",
					queries: []query{{expr: `process_resident_memory_bytes{job="trellis"} / go_gc_gomemlimit_bytes{job="trellis"}`,
						legend: "{{instance}}"}},
				},
				{
					kind: timeseries, title: "Memory a target", unit: "bytes", width: 8,
					description: "Resident memory of the largest replica, divided by the number of targets.",
					queries: []query{{expr: `max(process_resident_memory_bytes{job="trellis"}) / max(trellis:targets:count)`,
						legend: "a target"}},
				},
				{
					kind: timeseries, title: "Watches a target", unit: "short", width: 8,
					description: "Watches of one replica and the objects that they keep, divided by the number of targets.",
					queries: []query{
						{expr: `sum(max by (state) (trellis_clustercache_watches)) / max(trellis:targets:count)`, legend: "watches"},
						{expr: `max(trellis_clustercache_watched_objects) / max(trellis:targets:count)`, legend: "objects"},
					},
				},
				{
					kind: timeseries, title: "Idle workers", unit: "short", width: 12,
					description: "Workers of each class that have nothing to do. None for long: raise concurrentSyncs of " +
						"the class.",
					queries: []query{{expr: `max by (class) (trellis_queue_seats - (trellis_queue_in_flight - trellis_queue_waiting))`,
						legend: "{{class}}"}},
				},
				{
					kind: heatmap, title: "Waits for a worker", unit: "s",
					description: "How many ManagedResources waited how long for a worker.",
					queries: []query{{expr: `sum by (le) (increase(trellis_queue_wait_seconds_bucket[$__rate_interval]))`,
						legend: "{{le}}"}},
					instead: []query{{expr: `max(class:trellis_queue_wait_seconds:p99_5m)`, legend: "p99"}},
				},
			}},
			{title: "Latency", panels: []panel{
				{
					kind: timeseries, title: "Drift correction", unit: "s", drill: toDrift,
					description: "From the event that showed a drift to the answer to its correction: the middle and the slowest hundredth.",
					queries: []query{
						{expr: `class:trellis_drift_correction_duration_seconds:p99_5m`, legend: "{{class}} p99"},
						{expr: `histogram_quantile(0.5, sum by (class, le) (rate(trellis_drift_correction_duration_seconds_bucket[$__rate_interval])))`, legend: "{{class}} p50"},
					},
				},
				{
					kind: timeseries, title: "Secret to applied", unit: "s",
					description: "From the event of a changed Secret to the moment that all its objects are applied: the middle and the slowest hundredth.",
					queries: []query{
						{expr: `class:trellis_secret_propagation_duration_seconds:p99_5m`, legend: "{{class}} p99"},
						{expr: `histogram_quantile(0.5, sum by (class, le) (rate(trellis_secret_propagation_duration_seconds_bucket[$__rate_interval])))`, legend: "{{class}} p50"},
					},
				},
				{
					kind: timeseries, title: "Reconciles", unit: "ops",
					description: "Runs over a ManagedResource in a second, by class and result.",
					queries:     []query{{expr: `sum by (class, result) (rate(trellis_reconcile_duration_seconds_count[$__rate_interval]))`, legend: "{{class}} {{result}}"}},
				},
				{
					kind: timeseries, title: "Duration of a reconcile", unit: "s",
					description: "How long the slowest hundredth of the runs takes, by class.",
					queries:     []query{{expr: `histogram_quantile(0.99, sum by (class, le) (rate(trellis_reconcile_duration_seconds_bucket[$__rate_interval])))`, legend: "{{class}} p99"}},
				},
				{
					kind: timeseries, title: "Objects applied", unit: "ops",
					description: "Objects applied to targets in a second, by class and result. What has not changed is not sent.",
					queries:     []query{{expr: `sum by (class, result) (rate(trellis_objects_applied_total[$__rate_interval]))`, legend: "{{class}} {{result}}"}},
				},
				{
					kind: timeseries, title: "Objects pruned", unit: "ops",
					description: "Objects that left an inventory in a second, by class and what became of them.",
					queries:     []query{{expr: `sum by (class, result) (rate(trellis_objects_pruned_total[$__rate_interval]))`, legend: "{{class}} {{result}}"}},
				},
			}},
			{title: "Requests", panels: []panel{
				{
					kind: timeseries, title: "Requests to targets", unit: "reqps", stacked: true, drill: toConnectivity,
					description: "Requests to all targets in a second, by verb.",
					queries:     []query{{expr: `sum by (verb) (rate(trellis_clustercache_requests_total[$__rate_interval]))`, legend: "{{verb}}"}},
				},
				{
					kind: timeseries, title: "Requests to the source cluster", unit: "reqps", stacked: true,
					description: "Requests to the source cluster in a second, by method and answer.",
					queries:     []query{{expr: `sum by (method, code) (rate(rest_client_requests_total{job="trellis", host!="target"}[$__rate_interval]))`, legend: "{{method}} {{code}}"}},
				},
				{
					kind: timeseries, title: "Bytes exchanged with targets", unit: "Bps",
					description: "What is sent to and received from all targets in a second, before decompression.",
					queries:     []query{{expr: `sum by (direction) (rate(trellis_clustercache_transferred_bytes_total[$__rate_interval]))`, legend: "{{direction}}"}},
				},
				{
					kind: timeseries, title: "Events of watches", unit: "ops",
					description: "Changes in all targets that the hub looked at in a second.",
					queries:     []query{{expr: `sum(rate(trellis_clustercache_watch_events_total[$__rate_interval]))`, legend: "events"}},
				},
			}},
			{title: "Memory and caches", panels: []panel{
				{
					kind: timeseries, title: "Memory by replica", unit: "bytes",
					description: "Resident memory of each replica, and what Go's heap has of it.",
					queries: []query{
						{expr: `process_resident_memory_bytes{job="trellis"}`, legend: "{{instance}} resident"},
						{expr: `go_memstats_heap_inuse_bytes{job="trellis"}`, legend: "{{instance}} heap"},
					},
				},
				{
					kind: timeseries, title: "Goroutines", unit: "short",
					description: "Goroutines of each replica. They follow the number of targets; a line that only rises is a leak.",
					queries:     []query{{expr: `go_goroutines{job="trellis"}`, legend: "{{instance}}"}},
				},
				{
					kind: timeseries, title: "Watched objects", unit: "short",
					description: "Objects of targets that the watches of a replica keep in memory.",
					queries:     []query{{expr: `max(trellis_clustercache_watched_objects)`, legend: "objects"}, {expr: `max(trellis_clustercache_mappers)`, legend: "REST mappers"}},
				},
				{
					kind: timeseries, title: "Hits of the bundle cache", unit: "percentunit",
					description: "Share of bundles that need not be decoded again, because another ManagedResource had the same content.",
					queries: []query{{
						expr:   `sum(rate(trellis_bundle_cache_lookups_total{result="hit"}[$__rate_interval])) / sum(rate(trellis_bundle_cache_lookups_total[$__rate_interval]))`,
						legend: "hits",
					}},
				},
				{
					kind: timeseries, title: "Size of the bundle cache", unit: "bytes",
					description: "Memory of decoded bundles, and of the content of Secrets as they hold it. When there is no room for another decoded bundle, the one that was used longest ago goes. When there is none for the content of a Secret, it is read again when its objects drift.",
					queries:     []query{{expr: `max(trellis_bundle_cache_bytes)`, legend: "decoded"}, {expr: `max(trellis_bundle_kept_bytes)`, legend: "as Secrets hold it"}},
				},
				{
					kind: timeseries, title: "Bundles forgotten", unit: "ops",
					description: "Decoded bundles that are forgotten in a second, to make room for others or because no run asked " +
						"for them (unused), which is usual. Many for room and few hits: the cache is too small.",
					queries: []query{{expr: `sum by (reason) (rate(trellis_bundle_cache_evictions_total[$__rate_interval]))`,
						legend: "{{reason}}"}},
				},
				{
					kind: timeseries, title: "Decoding of a bundle", unit: "s",
					description: "How long the slowest hundredth of the bundles takes to decompress and decode.",
					queries:     []query{{expr: `histogram_quantile(0.99, sum by (le) (rate(trellis_bundle_decode_duration_seconds_bucket[$__rate_interval])))`, legend: "p99"}},
				},
			}},
		},
	}
}
