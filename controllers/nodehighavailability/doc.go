// Package nodehighavailability has workloads of a target spread again over its Nodes when it gets the second one, or
// has one left. A webhook decides on the spread when workloads are written: with one Node, a constraint that has to be
// fulfilled would leave all pods but one pending. So the decision has to be made again when the number of Nodes has
// changed, although no client writes the workloads then.
//
// # How it works
//
// The Nodes of each target are watched, in the stream that package nodemarks shares between controllers. When one comes
// or goes, up to two of them are listed. If there are several now and were not before, or the other way round, the
// Deployments and StatefulSets are listed in the Namespaces with the label
// high-availability-config.resources.gardener.cloud/consider: "true", page by page. Those whose constraint for the
// hostname does not fit get a patch without content, which has the API server call the webhook. Where the webhook
// changes nothing, nothing is written.
//
// # Trade-offs
//
// What was done last is remembered for each target, and nothing else. A new leader, and a target that is connected
// again, are looked at once: that costs some lists, and patches only of what does not fit.
//
// It is remembered when all was patched, so that what failed is tried again. One workload that cannot be patched keeps
// no other one from it. It is patched again with pauses of up to five minutes, and an event on the TargetCluster says
// so if it is refused permanently.
//
// With more than 20 Namespaces, all workloads of the target are listed instead of those of each of them.
//
// Workloads that the webhook left as they were are not looked at, for example because it was down and its failures are
// ignored.
//
// # Trust
//
// Nothing but patches without content is written. More than 100000 objects of a kind are not looked at, which an event
// on the TargetCluster says.
//
// # Rights
//
// In the source, in home namespaces: events (events.k8s.io) create, patch.
//
// In targets: nodes list, watch; namespaces list; deployments (apps) list, patch; statefulsets (apps) list, patch.
package nodehighavailability
