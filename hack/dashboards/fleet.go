package main

// worstTargets selects ten targets: those that are down, then those with the most ManagedResources that are not ready.
const worstTargets = `topk(10, (1 - target:trellis_target_up:max) * 1000000 + on (target) (max by (target) (trellis_target_managedresources_not_ready) or target:trellis_target_up:max * 0))`

// ofWorst restricts a query to them.
func ofWorst(expr string) string { return "(" + expr + ") and on (target) " + worstTargets }

func fleet() dashboard {
	return dashboard{
		uid: "trellis-fleet", title: "Trellis / Fleet", category: "overview",
		description: "All targets at a glance. Click on a target to look at it alone.",
		rows: []row{
			{title: "At a glance", panels: []panel{
				{
					kind: stat, title: "Targets up", unit: "percentunit", bad: 0.99, badBelow: true, drill: toConnectivity,
					description: "Share of the targets that the hub can reach.",
					queries:     []query{{expr: `sum(target:trellis_target_up:max) / trellis:targets:count`, legend: "up"}},
				},
				{
					kind: stat, title: "ManagedResources ready", unit: "percentunit", bad: 0.99, badBelow: true,
					description: "Share of the ManagedResources that are applied, healthy and rolled out.",
					queries:     []query{{expr: `trellis:managedresources_ready:ratio`, legend: "ready"}},
				},
				{
					kind: stat, title: "Drift in the last hour", unit: "short", drill: toDrift,
					description: "Objects that somebody else changed or deleted and the hub brought back.",
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
					description: "Objects brought back in a second, by class.",
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
					kind: bars, title: "Versions", unit: "short",
					description: "Targets by Kubernetes version.",
					queries:     []query{{expr: `count by (version) (max by (target, version) (trellis_target_info))`, legend: "{{version}}"}},
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
