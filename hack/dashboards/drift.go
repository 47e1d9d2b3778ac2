package main

func drift() dashboard {
	return dashboard{
		uid: "trellis-drift", title: "Trellis / Drift", category: "drift",
		description: "Who changes what in the targets, when, and who does not stop. The events of the ManagedResources name each object.",
		rows: []row{
			{title: "At a glance", panels: []panel{
				{
					kind: stat, title: "Corrections in the last hour", unit: "short",
					description: "Objects that the hub corrected after another client had changed or deleted them.",
					queries:     []query{{expr: `trellis:drift_corrections:increase1h or vector(0)`, legend: "corrections"}},
				},
				{
					kind: stat, title: "Contested", unit: "short", bad: 1,
					description: "ManagedResources whose objects another client changes again and again. " +
						"Their condition Contested names the client.",
					queries: []query{{legend: "ManagedResources",
						expr: `sum(trellis_managedresources{condition="Contested", status="True"}) or vector(0)`}},
				},
				{
					kind: stat, title: "Targets with drift", unit: "short",
					description: "Targets in which anything was corrected within the last hour.",
					queries:     []query{{expr: `count(target:trellis_target_drift_corrections:increase1h > 0) or vector(0)`, legend: "targets"}},
				},
				{
					kind: stat, title: "Time to correct", unit: "s", bad: 5, drill: toHub,
					description: "From the event that showed a drift to the answer to its correction, for the slowest hundredth of the last five minutes.",
					queries:     []query{{expr: `max(class:trellis_drift_correction_duration_seconds:p99_5m)`, legend: "p99"}},
				},
			}},
			{title: "Who", panels: []panel{
				{
					kind: timeseries, title: "By manager", unit: "ops", stacked: true,
					description: "Corrections in a second, by the field manager that had changed the object. It is empty for deletions, whose author no object remembers.",
					queries:     []query{{expr: `sum by (manager) (rate(trellis_drift_corrections_total[$__rate_interval]))`, legend: "{{manager}}"}},
				},
				{
					kind: table, title: "Who changed what", unit: "short",
					description: "Corrections in the chosen time, by field manager, kind and what was done.",
					queries:     []query{{expr: `topk(20, sum by (manager, kind, action) (increase(trellis_drift_corrections_total[$__range])) > 0)`, legend: "Corrections", unit: "short"}},
					width:       12,
				},
			}},
			{title: "What", panels: []panel{
				{
					kind: timeseries, title: "By kind", unit: "ops", stacked: true,
					description: "Corrections in a second, by the kind of the object.",
					queries:     []query{{expr: `sum by (kind) (rate(trellis_drift_corrections_total[$__rate_interval]))`, legend: "{{kind}}"}},
				},
				{
					kind: timeseries, title: "Reset or created", unit: "ops", stacked: true,
					description: "Corrections in a second: changed objects that were reset, and deleted ones that were created again.",
					queries:     []query{{expr: `sum by (action) (rate(trellis_drift_corrections_total[$__rate_interval]))`, legend: "{{action}}"}},
				},
			}},
			{title: "Where and when", panels: []panel{
				{
					kind: bars, title: "Targets with the most drift", unit: "short", drill: toTarget,
					description: "The ten targets with the most corrections in the last hour.",
					queries:     []query{{expr: `topk(10, target:trellis_target_drift_corrections:increase1h)`, legend: "{{target}}"}},
				},
				{
					kind: timeseries, title: "Contested ManagedResources", unit: "short",
					description: "ManagedResources with objects that another client keeps changing, by class. " +
						"The hub corrects them less and less often.",
					queries: []query{{legend: "{{class}}", expr: `sum by (class) (` +
						`trellis_managedresources{condition="Contested", status="True"}) or vector(0)`}},
				},
				{
					kind: timeseries, title: "Corrections in an hour, by target", unit: "short", width: 24, drill: toTarget,
					description: "Corrections within an hour, for the ten targets that have the most at a time.",
					queries:     []query{{expr: `topk(10, target:trellis_target_drift_corrections:increase1h)`, legend: "{{target}}"}},
				},
			}},
		},
	}
}
