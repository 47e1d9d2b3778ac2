// Package health has end-to-end tests of the conditions of ManagedResources: whether they are correct at every moment
// of a roll-out, and whether they are written no more often than they change.
//
//	rollout_test.go  from the change of a Secret to the end of a roll-out, step by step and in one go
//	flapping_test.go pods whose readiness comes and goes
//	stuck_test.go    roll-outs that do not continue, and what is said of the pods that hold them up
//	pods_test.go     which pods count
//	kinds_test.go    other kinds: custom resources, those of operators, load balancers
//	quiet_test.go    changes that change nothing of the verdict
//	late_test.go     watches that are late
//	outage_test.go   targets that are lost in every phase of a roll-out
//	nodes_test.go    a node that joins, and what is not scheduled there before it is complete
//
// A source and two targets are shared by all tests, and so is the hub. The targets have controllers, a scheduler and a
// node whose kubelet says of every pod that it runs. Pods of a scheduler that does not exist never get to it: of those
// the test is the kubelet, so that a roll-out goes no further than the test lets it. The second target is for tests
// that take it away; only one of them has it at a time.
//
// A watch on the source records every version of every ManagedResource. What must not be said before something happened
// in the target is looked for in all versions up to the moment before the test made it happen.
package health
