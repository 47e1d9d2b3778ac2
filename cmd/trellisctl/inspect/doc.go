// Package inspect has the commands that show the objects of a ManagedResource in its target: status and tree.
//
// The conditions of a ManagedResource show what the hub observed; these commands read every object of the inventory
// from the target, a bounded number at a time, and check it with the hub's own rules (package health). So they also
// work without a running hub, and show each object where a condition lists the twenty worst.
//
//	status.resources -> target -> health.Check, Progress -> Report -> table, JSON, names
//	                       pods -> health.Explain, PodsRolledOut --^        tree: with ReplicaSets and Pods
//
// If a target cannot be reached, the report still has the conditions and the inventory, with objects whose state is
// unknown, and the exit code is that of an unreachable cluster.
//
// Trade-offs: objects are read one by one, in full, because only the inventory names them. For a large inventory that
// takes a few seconds. Pods are listed once for each namespace with workloads, 500 at most.
package inspect
