// Command trials puts one hub on trial with a fleet of simulated targets: "make fleet", "make failover", "make
// faults", "make hostile" and "make soak", with further flags in ARGS.
//
//	fleet    as many targets as the machine takes: costs, latencies, rotations, outages and restarts (package scale)
//	foreign  what Secrets of others in the source cost (package scale)
//	failover replicas of the hub that end, in order or not, and who goes on (package failover)
//	faults   each fault of the simulator in each phase of what the hub does with a target (package matrix)
//	hostile  attacks of tenants and targets on the hub (package hostile)
//	soak     an hour of targets that come and go, drift, changes, rotations and faults (package soak)
//	cycles   targets that come and go, as quickly as it goes (package soak)
//
// Each prints a table and writes everything it measured to bin/trials/<trial>-<time>.json, or to the file of -out.
// Measurements are shown with a reference of the same run and the load of the machine. A trial fails, with exit code 1,
// if a goal is missed or a property is broken. On a machine that is busy with something else, -goals=false leaves those
// properties that must hold on any.
package main
