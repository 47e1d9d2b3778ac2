// Package inspect has the commands that look at the objects of a ManagedResource in its target: status and tree.
//
// The conditions of a ManagedResource say what the hub saw; these commands look for themselves. They read every object of the
// inventory from the target, with a bound on how many at a time, and judge it with the hub's own rules (package health): so
// they also work while no hub does, and show each object where a condition lists the twenty worst.
//
//	status.resources -> target -> health.Check, Progress -> Report -> table, JSON, names
//	                       pods -> health.Explain, PodsRolledOut --^        tree: with ReplicaSets and Pods
//
// A target that cannot be reached is no reason to say nothing: the report then has the conditions and the inventory, with
// objects whose state is unknown, and the exit code says so.
//
// Trade-offs: objects are read one by one, in full, because an inventory names them and nothing else does. Of a large inventory
// that is a few seconds. Pods are listed once for each namespace with workloads, 500 at most.
package inspect
