// Package fleet measures one hub with as many targets as the machine takes: what it costs to bring everything to them,
// to keep it there while nothing happens, how quick it is, and what rotations, outages and restarts do to it. The
// figures stand beside the goals of the project.
//
// How it works: a run is a row of steps on one rig, each of which adds figures to the report. The source is filled
// before the hub starts, so that filling is not what is measured. What is a matter of time is shown as held or missed;
// what must hold on any machine, such as no write while nothing happens, breaks the run.
//
//	fill      the source gets everything, by many writers, without a hub
//	apply     the hub starts and brings it to the targets
//	rollout   the workloads become ready, as far as can be observed
//	memory    of the hub, beside what the goal allows
//	rest      nothing happens: processor time, requests to targets, writes to the source
//	connect   further targets are registered
//	drift     objects are edited in the targets
//	change    one object changes in all targets
//	rotate    credentials and certificates change
//	outage    a part of the targets vanishes and comes back, in rounds
//	hang      a part of the targets takes requests and answers none
//	flood     one target gets very many requests at once
//	restart   the hub ends and starts again
//	unprobed  rest without probes, to measure what these cost
//	controllers  what controllers that work in targets cost, one after the other, and what they ask for at rest; only
//	          with the flag of this name
//
// The subcommand foreign asks what Secrets of others in the source cost. It is a run of its own: there is no way back.
package fleet
