// Package criticalcomponents takes a taint off Nodes of targets. A kubelet registers with the taint
// node.gardener.cloud/critical-components-not-ready, so that no workload gets onto a Node before what it cannot do
// without runs there: the network, DNS, the drivers of volumes.
//
// # How it works
//
// The Nodes of each target are watched, and of each only what package nodemarks keeps. A Node that comes or changes
// and has the taint is looked at, and then again after each backoff, as long as it has the taint. A look reads the
// Node, the DaemonSets and the pods of kube-system with the label node.gardener.cloud/critical-component=true, and the
// CSINode if one of these pods names a driver. In this order:
//
//   - each DaemonSet that belongs onto the Node has a pod there,
//   - all these pods are ready,
//   - all drivers that annotations of these pods name are registered.
//
// The first that is not so is said by an event on the Node, in the target. If all are so, the taint is removed by a
// patch of the version of the Node that was read. Whether a DaemonSet belongs onto a Node is decided as its controller
// does: by name, selector, affinity, and the taints that the Node has now. When the settings of a target change, its
// Nodes with the taint are looked at.
//
// # Trade-offs
//
// DaemonSets, pods and CSINodes are read live rather than watched. Nodes have the taint for a minute or so in their
// lives, and watches would cost memory in each target for ever. A live read is complete or fails, so a taint is never
// removed because a cache was empty. It costs four small calls for each Node and backoff while there is the taint;
// none at any other time.
//
// Pods that are over or being deleted do not count, neither as pods that are awaited nor as those of a DaemonSet.
//
// The same event is written again after half an hour only. What was said is forgotten when the taint is gone, and at
// the end of a term.
//
// Where there is no critical component at all, the taint is removed at once. So the DaemonSets of a new cluster have to
// be applied before its first Node joins.
//
// # Trust
//
// All that is read comes from the target and concerns nothing but this target. More than 500 critical DaemonSets, or
// pods on a Node, are not looked at; then the taint stays. So it does while something cannot be read. What does not
// get better by itself is an event on the TargetCluster. A Node may change as often as it likes, so looks have a pace.
//
// # Rights
//
// In the source, in home namespaces: events (events.k8s.io) create, patch.
//
// In targets: nodes get, list, watch, patch; csinodes (storage.k8s.io) get. In kube-system: pods list, daemonsets
// (apps) list. In default: events (events.k8s.io) create.
//
// Where the source itself is the target, that is the second identity of the chart (trellis-source), which may do
// everything unless sourceIdentity.rules says less. So the chart grants nothing more for this controller.
package criticalcomponents
