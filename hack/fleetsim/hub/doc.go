// Package hub has the tests in which a real hub serves a simulated fleet: the source is a real control plane, each
// target is simulated and filled with the fixture shoot-20, and the journal of the fleet judges what the hub did. There
// is nothing else in it.
//
// The fleet is small by default, as "make test" runs it; -fleet.targets makes it larger. What a hub takes, and how
// quick it is, is measured by hack/perf.
//
// No kubelet and no controller runs in a simulated target. What is said of workloads and their pods is played by
// package player.
package hub
