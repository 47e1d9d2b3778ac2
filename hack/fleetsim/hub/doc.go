// Package hub has the tests in which a real hub serves a simulated fleet: the source is a real control plane, each target is
// simulated and filled with the fixture shoot-20, and the journal of the fleet judges what the hub did. There is nothing else
// in it.
//
// The fleet is small by default, as "make test" runs it; -fleet.targets makes it larger. TestMeasure is left out unless
// -fleet.measure is given. It runs the hub as a process of its own, so that its processor time and that of the simulator, which
// is the test, are told apart, and prints a table; it asserts nothing about figures:
//
//	go test ./hack/fleetsim/hub -run TestMeasure -fleet.measure -fleet.targets=100 -timeout=30m -v
//
// No kubelet and no controller runs in a simulated target. What is said of workloads and their pods is played by the test
// (player_test.go), for a ManagedResource with a Deployment that nobody rolls out is never ready.
package hub
