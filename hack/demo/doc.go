// Command demo shows what Trellis does, on real control planes on this machine: "make demo".
//
// It starts a source cluster and three targets with fake nodes, on which Deployments really roll out, and the hub as it
// ships: a process of its own, with the rights of the chart's identities. Then it goes through the life of a target, act
// by act, and prints what happens when, and how long it took. Times are taken by watches outside the hub, from the moment
// that a server acknowledged the change to the moment that its consequence was seen.
//
// Whatever it prints it has checked. With --once it ends after the last act, with a failure if anything was not true;
// without, it prints commands to look around with, shows what the hub reports, and stays until Ctrl-C.
//
// The acts are in acts.go in the order of the show, what they need of the clusters is in world.go, and what is printed goes
// through screen.go. The package stage, which the benchmark uses too, starts clusters and the hub and watches them.
package main
