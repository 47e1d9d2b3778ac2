package main

func target() dashboard {
	return dashboard{
		uid: "trellis-target", title: "Trellis / Target", category: "target", perTarget: true,
		description: "One target: can it be reached, is everything in it, and what does it cost.",
		rows: []row{
			{title: "$target", panels: []panel{
				{
					kind: stat, title: "Reachable", unit: "none", bad: 1, badBelow: true, states: map[string]string{"0": "down", "1": "up"}, drill: toConnectivity,
					description: "Whether any replica of the hub can reach the target.",
					queries:     []query{{expr: `target:trellis_target_up:max{target="$target"}`, legend: "up"}},
				},
				{
					kind: stat, title: "Not ready", unit: "short", bad: 1,
					description: "ManagedResources of this target whose condition Ready is not True.",
					queries:     []query{{expr: `max(trellis_target_managedresources_not_ready{target="$target"})`, legend: "ManagedResources"}},
				},
				{
					kind: stat, title: "Objects", unit: "short",
					description: "Objects in the inventories of this target's ManagedResources.",
					queries:     []query{{expr: `max(trellis_target_objects{target="$target"})`, legend: "objects"}},
				},
				{
					kind: stat, title: "Drift in the last hour", unit: "short", drill: toDrift,
					description: "Objects in this target that the hub corrected after another client had changed or " +
						"deleted them.",
					queries: []query{{legend: "corrections",
						expr: `target:trellis_target_drift_corrections:increase1h{target="$target"} or vector(0)`}},
				},
				{
					kind: table, title: "What it is", unit: "none", height: 4,
					description: "Kubernetes version, cloud and region of the target.",
					queries:     []query{{expr: `max by (target, version, cloud_type, region) (trellis_target_info{target="$target"})`, legend: "Known", unit: "none"}},
				},
			}},
			{title: "Service levels", panels: slo()},
			{title: "Connection", panels: []panel{
				{
					kind: timeseries, title: "Up, by replica", unit: "none",
					description: "Whether each replica of the hub can reach the target.",
					queries:     []query{{expr: `trellis_target_up{target="$target"}`, legend: "{{instance}}"}},
				},
				{
					kind: timeseries, title: "Round trip", unit: "s",
					description: "How long the target took to answer the last probe, by replica.",
					queries:     []query{{expr: `trellis_target_round_trip_seconds{target="$target"}`, legend: "{{instance}}"}},
				},
				{
					kind: timeseries, title: "Last answer to a probe", unit: "s",
					description: "How long ago the target answered a probe, by replica. It rises while the target is down.",
					queries:     []query{{expr: `time() - trellis_target_last_probe_success_timestamp_seconds{target="$target"}`, legend: "{{instance}}"}},
				},
				{
					kind: timeseries, title: "Connects", unit: "short",
					description: "How often the hub connected within an hour. More than a few mean that the target comes and goes.",
					queries:     []query{{expr: `max(increase(trellis_target_connects_total{target="$target"}[1h]))`, legend: "connects"}},
				},
			}},
			{title: "Work", panels: []panel{
				{
					kind: timeseries, title: "Requests", unit: "reqps",
					description: "Requests to this target in a second, by result.",
					queries:     []query{{expr: `sum by (result) (rate(trellis_target_requests_total{target="$target"}[$__rate_interval]))`, legend: "{{result}}"}},
				},
				{
					kind: timeseries, title: "In flight and throttled", unit: "short",
					description: "Requests that wait for an answer, and requests that wait for the limits that the hub keeps for this target.",
					queries: []query{
						{expr: `max(trellis_target_requests_in_flight{target="$target"})`, legend: "in flight"},
						{expr: `max(rate(trellis_target_throttled_seconds_total{target="$target"}[$__rate_interval]))`, legend: "throttled"},
					},
				},
				{
					kind: timeseries, title: "Queue wait", unit: "s", drill: toHub,
					description: "How long the ManagedResource of this target has waited that waits longest, for a worker or for others of this target.",
					queries:     []query{{expr: `max(trellis_target_queue_oldest_seconds{target="$target"})`, legend: "oldest"}},
				},
				{
					kind: timeseries, title: "Drift corrections", unit: "ops", drill: toDrift,
					description: "Objects of this target corrected in a second.",
					queries:     []query{{expr: `sum(rate(trellis_target_drift_corrections_total{target="$target"}[$__rate_interval]))`, legend: "corrections"}},
				},
				{
					kind: timeseries, title: "Watches without a complete list", unit: "short",
					description: "Kinds whose drift the hub would not notice at present. Zero is well.",
					queries:     []query{{expr: `max(trellis_target_watches_unsynced{target="$target"})`, legend: "unsynced"}},
				},
				{
					kind: timeseries, title: "ManagedResources that are not ready", unit: "short",
					description: "ManagedResources of this target whose condition Ready is not True.",
					queries:     []query{{expr: `max(trellis_target_managedresources_not_ready{target="$target"})`, legend: "not ready"}},
				},
			}},
			{title: "Controllers", panels: []panel{
				{
					kind: timeseries, title: "Overdue tokens", unit: "short",
					description: "Access Secrets whose token should have been issued or renewed, and was not.",
					queries:     []query{{expr: `max(trellis_target_tokens_overdue{target="$target"})`, legend: "overdue"}},
				},
				{
					kind: timeseries, title: "Denied certificates", unit: "short",
					description: "CertificateSigningRequests that were denied within an hour.",
					queries: []query{{expr: `sum(increase(trellis_target_certificates_denied_total{target="$target"}[1h]))`,
						legend: "denied"}},
				},
				{
					kind: timeseries, title: "Nodes that wait for critical components", unit: "short",
					description: "Nodes with the taint that keeps workloads away until critical components are ready.",
					queries:     []query{{expr: `max(trellis_target_nodes_waiting{target="$target"})`, legend: "nodes"}},
				},
				{
					kind: timeseries, title: "Longest wait of a node", unit: "s",
					description: "How long the node has had that taint that has had it longest.",
					queries: []query{{expr: `max(trellis_target_nodes_waiting_oldest_seconds{target="$target"})`,
						legend: "oldest"}},
				},
				{
					kind: timeseries, title: "Garbage", unit: "short",
					description: "ConfigMaps and Secrets that were collected within an hour, and periods without a pass that went " +
						"well. More than one of these mean that passes fail.",
					queries: []query{
						{expr: `sum(increase(trellis_target_garbage_collected_total{target="$target"}[1h]))`, legend: "collected"},
						{expr: `max(trellis_target_garbage_collection_missed_periods{target="$target"})`, legend: "missed periods"},
					},
				},
				{
					kind: timeseries, title: "Services without their network policies", unit: "short",
					description: "Services with missing or wrong network policies.",
					queries:     []query{{expr: `max(trellis_target_network_policies_failing{target="$target"})`, legend: "Services"}},
				},
			}},
		},
	}
}

// slo are the service levels of a target, each with the share of its error budget of 30 days that is left.
func slo() []panel {
	levels := []struct{ title, series, goal, says string }{
		{"reachable", "reachable", "0.999", "The target could be reached: 99.9 % of the time."},
		{"applied in time", "applied", "0.99", "Changed contents were applied within five minutes: 99 % of the time."},
		{"corrected in time", "drift", "0.99", "Drift was corrected within five seconds: 99 % of the time."},
	}
	var panels []panel
	for _, l := range levels {
		month := `avg_over_time(target:trellis_slo_` + l.series + `:bool{target="$target"}[30d])`
		panels = append(panels,
			panel{
				kind: stat, title: "Share of time " + l.title, unit: "percentunit", width: 4,
				description: l.says + " Share of the last 30 days.",
				queries:     []query{{expr: month, legend: "share"}},
			},
			panel{
				kind: stat, title: "Error budget, " + l.title, unit: "percentunit", width: 4, bad: 0.1, badBelow: true,
				description: l.says + " The share of the error budget of 30 days that is left. " +
					"Negative: the objective is missed.",
				queries: []query{{expr: `1 - (1 - ` + month + `) / (1 - ` + l.goal + `)`, legend: "left"}},
			})
	}
	return append(panels, panel{
		kind: timeline, title: "When the objectives were met", unit: "none", bad: 1, badBelow: true, height: 6,
		states: map[string]string{"0": "no", "1": "yes"},
		description: "Whether the target was reachable, had all changes within five minutes, and its drift " +
			"corrected within five seconds.",
		queries: []query{
			{expr: `target:trellis_slo_reachable:bool{target="$target"}`, legend: "reachable"},
			{expr: `target:trellis_slo_applied:bool{target="$target"}`, legend: "applied in time"},
			{expr: `target:trellis_slo_drift:bool{target="$target"}`, legend: "corrected in time"},
		},
	})
}
