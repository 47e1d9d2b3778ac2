package main

// worstTargets selects ten targets: those that are down, then those with the most ManagedResources that are not ready.
const worstTargets = `topk(10, max by (target) (1 - target:trellis_target_up:max) * 1000000 + ` +
	`(max by (target) (trellis_target_managedresources_not_ready) or max by (target) (target:trellis_target_up:max * 0)))`

// ofWorst restricts a query to them.
func ofWorst(expr string) string { return "(" + expr + ") and on (target) " + worstTargets }

// leastReachable selects the ten targets that were reachable for the least time of a day.
const leastReachable = `bottomk(10, avg_over_time(target:trellis_slo_reachable:bool[1d]))`

// ofLeast restricts a query to them.
func ofLeast(expr string) string { return expr + " and on (target) " + leastReachable }

func fleet() dashboard {
	return dashboard{
		uid: "trellis-fleet", title: "Trellis / Fleet", category: "overview",
		description: "All targets at a glance. Click on a target to look at it alone.",
		rows: []row{
			{title: "At a glance", panels: []panel{
				{
					kind: stat, title: "Targets up", unit: "percentunit", bad: 0.99, badBelow: true, drill: toConnectivity,
					description: "Share of the targets that the hub can reach.",
					queries:     []query{{expr: `sum(target:trellis_target_up:max) / sum(trellis:targets:count)`, legend: "up"}},
				},
				{
					kind: stat, title: "ManagedResources ready", unit: "percentunit", bad: 0.99, badBelow: true,
					description: "Share of the ManagedResources that are applied, healthy and rolled out.",
					queries:     []query{{expr: `trellis:managedresources_ready:ratio`, legend: "ready"}},
				},
				{
					kind: stat, title: "Drift in the last hour", unit: "short", drill: toDrift,
					description: "Objects that the hub corrected after another client had changed or deleted them.",
					queries:     []query{{expr: `trellis:drift_corrections:increase1h or vector(0)`, legend: "corrections"}},
				},
				{
					kind: stat, title: "Queue wait", unit: "s", bad: 30, drill: toHub,
					description: "How long the ManagedResource that waits longest for a worker has been waiting.",
					queries:     []query{{expr: `max(trellis_queue_oldest_seconds)`, legend: "oldest"}},
				},
				{
					kind: table, title: "Worst ten targets", unit: "none", drill: toTarget, height: 11,
					description: "Targets that are down first, then those with the most ManagedResources that are not ready.",
					queries: []query{
						{expr: ofWorst(`target:trellis_target_up:max`), legend: "Up", unit: "none"},
						{expr: ofWorst(`max by (target) (trellis_target_managedresources_not_ready)`), legend: "Not ready", unit: "short"},
						{expr: ofWorst(`max by (target) (trellis_target_objects)`), legend: "Objects", unit: "short"},
						{expr: ofWorst(`target:trellis_target_drift_corrections:increase1h`), legend: "Drift in 1 h", unit: "short"},
						{expr: ofWorst(`max by (target) (trellis_target_queue_oldest_seconds)`), legend: "Waits for", unit: "s"},
						{expr: ofWorst(`max by (target) (trellis_target_round_trip_seconds)`), legend: "Round trip", unit: "s"},
					},
				},
			}},
			{title: "Over time", panels: []panel{
				{
					kind: timeseries, title: "Targets", unit: "short", drill: toConnectivity,
					description: "Targets that the hub knows, and those it cannot reach.",
					queries: []query{
						{expr: `trellis:targets:count`, legend: "all"},
						{expr: `trellis:targets_down:count`, legend: "down"},
					},
				},
				{
					kind: timeseries, title: "Fleet by state", unit: "short", stacked: true, drill: toConnectivity,
					description: "Registered targets by the state of their connection, as one replica sees them.",
					queries:     []query{{expr: `max by (state) (trellis_clustercache_targets)`, legend: "{{state}}"}},
				},
				{
					kind: timeline, title: "Targets that were down", unit: "none", bad: 1, badBelow: true, drill: toTarget,
					states:      map[string]string{"0": "down", "1": "up"},
					description: "When targets could not be reached that were down at any time of what is shown.",
					queries: []query{{
						expr: `target:trellis_target_up:max and on (target) ` +
							`min_over_time(target:trellis_target_up:max[$__range]) == 0`,
						legend: "{{target}}",
					}},
				},
				{
					kind: timeseries, title: "Conditions of targets", unit: "short",
					description: "Targets by the conditions that are not True.",
					queries:     []query{{expr: `sum by (condition, status) (trellis_targets{status!="True"})`, legend: "{{condition}} {{status}}"}},
				},
				{
					kind: timeseries, title: "ManagedResources that are not ready, by reason", unit: "short", stacked: true,
					description: "ManagedResources whose condition Ready is not True, by the reason it gives.",
					queries:     []query{{expr: `sum by (class, reason) (trellis_managedresources{condition="Ready", status!="True"})`, legend: "{{class}} {{reason}}"}},
				},
				{
					kind: timeseries, title: "Drift corrections", unit: "ops", drill: toDrift,
					description: "Objects corrected in a second, by class.",
					queries:     []query{{expr: `sum by (class) (rate(trellis_drift_corrections_total[$__rate_interval]))`, legend: "{{class}}"}},
				},
				{
					kind: timeseries, title: "Queue wait of the slowest hundredth", unit: "s", drill: toHub,
					description: "How long the slowest hundredth of the ManagedResources waits for a worker, by class.",
					queries:     []query{{expr: `class:trellis_queue_wait_seconds:p99_5m`, legend: "{{class}}"}},
				},
				{
					kind: timeseries, title: "Being deleted", unit: "short",
					description: "ManagedResources that are being deleted, by class.",
					queries:     []query{{expr: `sum by (class) (trellis_managedresources_deleting)`, legend: "{{class}}"}},
				},
			}},
			{title: "Roll-out of a change", panels: []panel{
				{
					kind: stat, title: "Targets behind", unit: "short", bad: 1,
					description: "Targets to which a changed content is not applied yet.",
					queries:     []query{{expr: `count(trellis_target_revision_lag_seconds) or vector(0)`, legend: "targets"}},
				},
				{
					kind: timeseries, title: "Targets behind over time", unit: "short", width: 18,
					description: "Targets to which a changed content is not applied yet, and those where that takes more " +
						"than a minute.",
					queries: []query{
						{expr: `count(trellis_target_revision_lag_seconds) or vector(0)`, legend: "behind"},
						{expr: `count(trellis_target_revision_lag_seconds > 60) or vector(0)`, legend: "for more than a minute"},
					},
				},
				{
					kind: table, title: "Last to get a change", unit: "s", drill: toTarget, width: 12,
					description: "How long ago the oldest content changed that a target does not have yet, for the twenty " +
						"targets that wait longest.",
					queries: []query{{expr: `sort_desc(topk(20, max by (target) (trellis_target_revision_lag_seconds)))`,
						legend: "Behind for", unit: "s"}},
				},
				{
					kind: heatmap, title: "From Secret to target", unit: "s",
					description: "How many contents took how long from the change of their Secret until all objects were " +
						"applied.",
					queries: []query{{legend: "{{le}}", expr: `sum by (le) (` +
						`increase(trellis_secret_propagation_duration_seconds_bucket[$__rate_interval]))`}},
					instead: []query{{expr: `max(class:trellis_secret_propagation_duration_seconds:p99_5m)`, legend: "p99"}},
				},
			}},
			{title: "Service levels", panels: []panel{
				{
					kind: table, title: "Targets with the worst day", unit: "percentunit", drill: toTarget,
					description: "Share of the last day in which the target was reachable, had changes within five minutes, " +
						"and had its drift corrected within five seconds, for the ten targets that were reachable least.",
					queries: []query{
						{legend: "Reachable", unit: "percentunit",
							expr: ofLeast(`avg_over_time(target:trellis_slo_reachable:bool[1d])`)},
						{legend: "Applied in time", unit: "percentunit",
							expr: ofLeast(`avg_over_time(target:trellis_slo_applied:bool[1d])`)},
						{legend: "Corrected in time", unit: "percentunit",
							expr: ofLeast(`avg_over_time(target:trellis_slo_drift:bool[1d])`)},
					},
				},
			}},
			{title: "Controllers in targets", panels: []panel{
				{
					kind: table, title: "Targets in which controllers fail", unit: "none", drill: toTarget,
					description: "Targets with overdue tokens, denied certificates within an hour, nodes that wait for critical " +
						"components, periods in which garbage was not collected, or Services without their network policies.",
					queries: []query{
						{expr: `max by (target) (trellis_target_tokens_overdue) > 0`, legend: "Tokens", unit: "short"},
						{expr: `sum by (target) (increase(trellis_target_certificates_denied_total[1h])) > 0`, legend: "Denied in 1 h",
							unit: "short"},
						{expr: `max by (target) (trellis_target_nodes_waiting_oldest_seconds) > 0`, legend: "A node waits for",
							unit: "s"},
						{expr: `max by (target) (trellis_target_garbage_collection_missed_periods) > 1`, legend: "Periods missed",
							unit: "short"},
						{expr: `max by (target) (trellis_target_network_policies_failing) > 0`, legend: "Services", unit: "short"},
					},
				},
				{
					kind: timeseries, title: "Runs of controllers", unit: "ops",
					description: "Runs in targets in a second that failed, and all runs, by controller.",
					queries: []query{
						{expr: `sum by (controller) (rate(trellis_controller_reconciles_total[$__rate_interval]))`,
							legend: "{{controller}}"},
						{expr: `sum by (controller) (rate(trellis_controller_reconciles_total{result="error"}[$__rate_interval]))`,
							legend: "{{controller}} failed"},
					},
				},
				{
					kind: timeseries, title: "Duration of a run", unit: "s",
					description: "How long the slowest hundredth of the runs takes, by controller.",
					queries: []query{{expr: `histogram_quantile(0.99, sum by (controller, le) ` +
						`(rate(trellis_controller_reconcile_duration_seconds_bucket[$__rate_interval])))`, legend: "{{controller}}"}},
				},
				{
					kind: timeseries, title: "Where controllers work", unit: "short",
					description: "Targets that each controller works in.",
					queries:     []query{{expr: `max by (controller) (trellis_controller_targets)`, legend: "{{controller}}"}},
				},
				{
					kind: timeseries, title: "Tokens and certificates", unit: "short",
					description: "Requests for tokens and certificates within an hour, and what came of them.",
					queries: []query{
						{expr: `sum by (result) (increase(trellis_token_requests_total[1h]))`, legend: "token {{result}}"},
						{expr: `sum by (decision) (increase(trellis_controller_csr_decisions_total[1h]))`,
							legend: "certificate {{decision}}"},
					},
				},
			}},
			{title: "Who they are", panels: []panel{
				{
					kind: timeseries, title: "By provider", unit: "short", stacked: true, width: 8,
					description: "Targets by the cloud of their nodes.",
					queries: []query{{
						expr:   `count by (cloud_type) (max by (target, cloud_type) (trellis_target_info))`,
						legend: "{{cloud_type}}",
					}},
				},
				{
					kind: timeseries, title: "By region", unit: "short", stacked: true, width: 8,
					description: "Targets by the region of their nodes.",
					queries: []query{{
						expr:   `count by (region) (max by (target, region) (trellis_target_info))`,
						legend: "{{region}}",
					}},
				},
				{
					kind: timeseries, title: "By version", unit: "short", stacked: true, width: 8,
					description: "Targets by Kubernetes version.",
					queries: []query{{
						expr:   `count by (version) (max by (target, version) (trellis_target_info))`,
						legend: "{{version}}",
					}},
				},
				{
					kind: bars, title: "Versions", unit: "short",
					description: "Targets by Kubernetes version.",
					queries: []query{{
						expr:   `count by (version) (max by (target, version) (trellis_target_info))`,
						legend: "{{version}}",
					}},
				},
				{
					kind: bars, title: "Largest targets", unit: "short", drill: toTarget,
					description: "The ten targets with the most objects in inventories.",
					queries:     []query{{expr: `topk(10, max by (target) (trellis_target_objects))`, legend: "{{target}}"}},
				},
			}},
		},
	}
}
