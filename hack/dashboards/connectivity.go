package main

func connectivity() dashboard {
	return dashboard{
		uid: "trellis-connectivity", title: "Trellis / Credentials and connectivity", category: "connectivity",
		description: "Which targets the hub reaches, how quickly, how often it lost them, and how long its credentials last.",
		rows: []row{
			{title: "At a glance", panels: []panel{
				{
					kind: stat, title: "Targets down", unit: "short", bad: 1,
					description: "Targets that no replica of the hub can reach.",
					queries:     []query{{expr: `trellis:targets_down:count`, legend: "down"}},
				},
				{
					kind: stat, title: "Registrations refused", unit: "short", bad: 1,
					description: "Registrations whose kubeconfig is not valid, or would run code in the hub or read its files.",
					queries:     []query{{expr: `max(trellis_clustercache_targets{state="Refused"}) or vector(0)`, legend: "refused"}},
				},
				{
					kind: stat, title: "Next credential ends in", unit: "s", bad: 3600, badBelow: true,
					description: "How long the credential lasts that ends first. Credentials that do not end are not counted.",
					queries:     []query{{expr: `min(trellis_target_credential_expiration_timestamp_seconds) - time()`, legend: "left"}},
				},
				{
					kind: stat, title: "Slowest probes", unit: "s", bad: 1,
					description: "How long the slowest hundredth of the probes takes.",
					queries:     []query{{expr: `histogram_quantile(0.99, sum by (le) (rate(trellis_clustercache_probe_duration_seconds_bucket[$__rate_interval])))`, legend: "p99"}},
				},
			}},
			{title: "Credentials", panels: []panel{
				{
					kind: table, title: "Credentials that end first", unit: "s", drill: toTarget, width: 12,
					description: "How long the credentials of the twenty targets last that end first.",
					queries:     []query{{expr: `sort(bottomk(20, min by (target) (trellis_target_credential_expiration_timestamp_seconds) - time()))`, legend: "Left", unit: "s"}},
				},
				{
					kind: timeseries, title: "Rotations", unit: "short",
					description: "Changes of credentials within an hour: of the token alone, which nothing notices, or of a whole connection; and how it went.",
					queries:     []query{{expr: `sum by (mode, result) (increase(trellis_clustercache_rotations_total[1h]))`, legend: "{{mode}} {{result}}"}},
				},
			}},
			{title: "Connections", panels: []panel{
				{
					kind: table, title: "Targets that are down", unit: "none", drill: toTarget, width: 12,
					description: "Targets that no replica reaches, and how long ago they answered last.",
					queries: []query{{
						expr:   `time() - max by (target) (trellis_target_last_probe_success_timestamp_seconds) and on (target) target:trellis_target_up:max == 0`,
						legend: "Answered last", unit: "s",
					}},
				},
				{
					kind: timeseries, title: "Targets by state", unit: "short", stacked: true,
					description: "Targets by the state of their connection, as one replica sees them.",
					queries:     []query{{expr: `max by (state) (trellis_clustercache_targets)`, legend: "{{state}}"}},
				},
				{
					kind: timeseries, title: "Connects", unit: "ops",
					description: "Tries to connect in a second, by result.",
					queries:     []query{{expr: `sum by (result) (rate(trellis_clustercache_connects_total[$__rate_interval]))`, legend: "{{result}}"}},
				},
				{
					kind: timeseries, title: "Disconnects", unit: "ops",
					description: "Connections lost in a second, by reason.",
					queries:     []query{{expr: `sum by (reason) (rate(trellis_clustercache_disconnects_total[$__rate_interval]))`, legend: "{{reason}}"}},
				},
				{
					kind: timeseries, title: "Probes", unit: "ops",
					description: "Probes in a second, by result.",
					queries:     []query{{expr: `sum by (result) (rate(trellis_clustercache_probes_total[$__rate_interval]))`, legend: "{{result}}"}},
				},
				{
					kind: timeseries, title: "Slowest targets", unit: "s", drill: toTarget,
					description: "Round trip of the last probe, for the ten slowest targets.",
					queries:     []query{{expr: `topk(10, max by (target) (trellis_target_round_trip_seconds))`, legend: "{{target}}"}},
				},
				{
					kind: timeseries, title: "Flapping targets", unit: "short", drill: toTarget,
					description: "Connects within an hour, for the ten targets with the most.",
					queries:     []query{{expr: `topk(10, max by (target) (increase(trellis_target_connects_total[1h])))`, legend: "{{target}}"}},
				},
				{
					kind: timeseries, title: "The hub's own network", unit: "none",
					description: "1 while many targets are lost together, so that a replica suspects its own network: it " +
						"keeps what it knows of them ready, and ManagedResources do not report it yet.",
					queries: []query{{expr: `max by (instance) (trellis_clustercache_mass_disconnect)`, legend: "{{instance}}"}},
				},
				{
					kind: timeseries, title: "Calls and watches that got no answer", unit: "short",
					description: "Within an hour: how often calls to a target were stopped for a while, and watches opened again because they were silent.",
					queries: []query{
						{expr: `sum(increase(trellis_clustercache_breaks_total[1h]))`, legend: "calls stopped"},
						{expr: `sum(increase(trellis_clustercache_silent_watches_total[1h]))`, legend: "watches opened again"},
					},
				},
				{
					kind: timeseries, title: "Watches", unit: "short",
					description: "Watches of one replica in all targets: those with a complete list, those of kinds that a " +
						"target may do without and does (absent), and those that are incomplete.",
					queries: []query{{expr: `max by (state) (trellis_clustercache_watches)`, legend: "{{state}}"}},
				},
			}},
			{title: "Requests", panels: []panel{
				{
					kind: timeseries, title: "Answers", unit: "reqps", stacked: true,
					description: "Requests to all targets in a second, by the code of the answer.",
					queries:     []query{{expr: `sum by (code) (rate(trellis_clustercache_requests_total[$__rate_interval]))`, legend: "{{code}}"}},
				},
				{
					kind: timeseries, title: "Time to an answer", unit: "s",
					description: "How long the slowest hundredth of the requests to all targets takes, by verb.",
					queries:     []query{{expr: `histogram_quantile(0.99, sum by (verb, le) (rate(trellis_clustercache_request_duration_seconds_bucket[$__rate_interval])))`, legend: "{{verb}} p99"}},
				},
				{
					kind: timeseries, title: "Throttled targets", unit: "short", drill: toTarget,
					description: "Requests that wait for the limits that the hub keeps for a target, for the ten targets with the most.",
					queries:     []query{{expr: `topk(10, max by (target) (rate(trellis_target_throttled_seconds_total[$__rate_interval])))`, legend: "{{target}}"}},
				},
				{
					kind: timeseries, title: "Requests that fail", unit: "reqps", drill: toTarget,
					description: "Requests in a second that a target refused or did not answer, for the ten targets with the most.",
					queries:     []query{{expr: `topk(10, sum by (target) (rate(trellis_target_requests_total{result="error"}[$__rate_interval])))`, legend: "{{target}}"}},
				},
			}},
		},
	}
}
