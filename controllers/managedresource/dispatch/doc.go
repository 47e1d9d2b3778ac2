// Package dispatch brings events to the queue of the class that is responsible for a ManagedResource.
//
// A Dispatcher receives events of ManagedResources, TargetClusters, Leases and Namespaces in the source, and of targets
// that come, go and change. From each event follow the ManagedResources that it concerns; the claim of each (package
// assignment) says which class and which target it is for, and its Request is put into the queue of the class. What the
// hub writes itself concerns no ManagedResource: otherwise every write would cause a run.
//
// Priorities order the requests of one target: a user's change before drift, drift before another attempt, and the
// periodic resyncs last. The flow of a request is its target, so that queues can be fair between targets.
//
// Trade-offs: an event of a target, a namespace or a Lease walks over the ManagedResources that the informer has, which
// costs microseconds each and needs no index of its own.
package dispatch
