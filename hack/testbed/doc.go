// Package testbed is where tests, the demo and measurements run a hub: real clusters, a hub, and an observer outside
// of it.
//
//	Cluster   a control plane (package controlplane) with a client of its administrator; InstallSource makes it a source
//	Hub       a hub in this process, with the rights of the chart's identity and nothing else
//	Process   bin/trellis in a process of its own, as it runs in production, on free loopback ports
//	Observer  what the hub says of ManagedResources and TargetClusters, as it changes
//	Follower  one object of a cluster, as it changes
//	Suite     how the tests of a package share clusters and a hub
//
// Tests take a Hub: it is quick to debug, runs with the race detector and with transports and clocks of the test.
// What is measured or shown is a Process: the operating system accounts for it alone. Each test takes a namespace of
// its own in clusters that all tests of a package share, registers a target in it, and creates ManagedResources
// there.
//
// Nothing outlives the process that uses it. The control planes see to that themselves; a Process has a small shell
// beside it that reads from a pipe of which this process holds the other end, and kills the hub when that end is
// gone.
//
// Trade-offs: the package links the whole hub and the packages of tests, so nothing that ships may import it. The
// Observer reads through an informer, so what it has seen is later by the time of one step through its queue;
// latencies to the millisecond are taken by a Follower, or by the journals of simulated targets.
package testbed
