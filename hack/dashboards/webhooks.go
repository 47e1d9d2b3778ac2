package main

func webhooks() dashboard {
	return dashboard{
		uid: "trellis-webhooks", title: "Trellis / Webhooks", category: "webhooks",
		description: "What API servers of targets ask the hub, what it answers, how quickly, and who does not " +
			"ask though it should.",
		rows: []row{
			{title: "At a glance", panels: []panel{
				{
					kind: stat, title: "Requests a second", unit: "reqps",
					description: "Requests of all API servers, to all replicas.",
					queries: []query{{
						expr:   `sum(rate(trellis_webhook_requests_total[$__rate_interval])) or vector(0)`,
						legend: "requests",
					}},
				},
				{
					kind: stat, title: "Requests that failed", unit: "short", bad: 1,
					description: "Requests within an hour that failed in the hub, or were too many.",
					queries: []query{{
						expr: `sum(increase(` +
							`trellis_webhook_requests_total{result=~"failed|panic|overload|too_many"}[1h])) or vector(0)`,
						legend: "failed",
					}},
				},
				{
					kind: stat, title: "Targets that do not call", unit: "short", bad: 1,
					description: "Targets for which webhooks are switched on, and whose API server does not call the hub.",
					queries: []query{{
						expr:   `count(trellis_target_condition_false{condition="WebhooksRegistered"}) or vector(0)`,
						legend: "targets",
					}},
				},
				{
					kind: stat, title: "Certificate ends in", unit: "s", bad: 5 * 86400, badBelow: true,
					description: "How long the certificate lasts by which the hub serves webhooks. It is renewed in time.",
					queries: []query{{
						expr:   `min(trellis_webhook_certificate_expiration_timestamp_seconds) - time()`,
						legend: "left",
					}},
				},
			}},
			{title: "Requests", panels: []panel{
				{
					kind: timeseries, title: "Requests by webhook", unit: "reqps", stacked: true,
					description: "Requests in a second, by webhook.",
					queries: []query{{
						expr:   `sum by (webhook) (rate(trellis_webhook_requests_total[$__rate_interval]))`,
						legend: "{{webhook}}",
					}},
				},
				{
					kind: timeseries, title: "Requests by result", unit: "reqps", stacked: true,
					description: "Requests in a second, by what became of them.",
					queries: []query{{
						expr:   `sum by (result) (rate(trellis_webhook_requests_total[$__rate_interval]))`,
						legend: "{{result}}",
					}},
				},
				{
					kind: heatmap, title: "Time to an answer of a webhook", unit: "s",
					description: "How many requests took how long, with what the hub reads of the target for them.",
					queries: []query{{expr: `sum by (le) (increase(trellis_webhook_duration_seconds_bucket[$__rate_interval]))`,
						legend: "{{le}}"}},
					instead: []query{{
						expr:   `histogram_quantile(0.99, sum by (le) (rate(trellis_webhook_duration_seconds_bucket[$__rate_interval])))`,
						legend: "p99",
					}},
				},
				{
					kind: timeseries, title: "Slowest webhooks", unit: "s",
					description: "How long the slowest hundredth of the requests takes, by webhook.",
					queries: []query{{
						expr: `histogram_quantile(0.99, sum by (webhook, le) (` +
							`rate(trellis_webhook_duration_seconds_bucket[$__rate_interval])))`,
						legend: "{{webhook}}",
					}},
				},
				{
					kind: timeseries, title: "Requests in flight", unit: "short",
					description: "Requests that each replica works on.",
					queries:     []query{{expr: `max by (instance) (trellis_webhook_requests_in_flight)`, legend: "{{instance}}"}},
				},
			}},
			{title: "Targets", panels: []panel{
				{
					kind: timeseries, title: "Targets with the most requests", unit: "reqps", drill: toTarget,
					description: "Requests in a second, for the ten targets with the most.",
					queries: []query{{
						expr:   `topk(10, sum by (target) (rate(trellis_target_webhook_requests_total[$__rate_interval])))`,
						legend: "{{target}}",
					}},
				},
				{
					kind: timeseries, title: "Refused requests", unit: "reqps", drill: toTarget,
					description: "Requests in a second beyond the limits of a target, for the ten targets with the most.",
					queries: []query{{
						expr:   `topk(10, sum by (target) (rate(trellis_target_webhook_requests_refused_total[$__rate_interval])))`,
						legend: "{{target}}",
					}},
				},
				{
					kind: table, title: "Webhooks that are not registered", unit: "none", drill: toTarget,
					description: "Targets whose API server does not call the hub though webhooks are switched on. Their " +
						"TargetClusters say why.",
					queries: []query{{
						expr:   `max by (target) (trellis_target_condition_false{condition="WebhooksRegistered"})`,
						legend: "Not registered", unit: "none",
					}},
				},
			}},
		},
	}
}
