// Package stalepods deletes pods that are of no use any longer: those that were evicted, those that a kubelet did not
// admit, and those that are stuck in termination.
//
// # How it works
//
// In each period a target has one pass over the namespaces that are configured. Nothing is watched. A namespace is
// listed twice, live and in pages: its pods that have failed, for the reason is in their status, and the metadata of
// all, which has the time from which on a pod should be gone. What is stale is then deleted, one after the other. One
// that cannot be deleted does not stop the others.
//
// A pod is stale if it has failed with the reason Evicted, NodeAffinity, or one that begins with OutOf, as OutOfcpu. It
// is deleted as usual. A pod is also stale if its time to end was over five minutes ago. It is deleted with a grace
// period of zero, which removes it from the API without its kubelet.
//
// # Never a wrong delete
//
// A pod is deleted with its UID and its resource version as preconditions, and only while its target is registered and
// connected as when the pass began. A pod that changed after it was listed is left to the next pass.
//
// # The home namespace
//
// Pods of the target's home namespace in the source, those of its control plane, are looked at only if homeNamespace is
// set. Which namespace that is follows from the registration, and from nothing that the target or a setting says. All
// pods of that namespace are looked at, whatever owns them. The source as a target has no home namespace.
//
// # Trade-offs
//
// A pod on a node that is cut off may still run when it is removed from the API, and a StatefulSet then starts its
// successor beside it. That is what this controller is for in kube-system, where most pods are of DaemonSets. Think
// twice before you add namespaces with databases.
//
// Pods whose reason is one of these but that have not failed are left alone: a kubelet always writes both.
//
// A pass deletes a bounded number of pods; the next one continues where it ended, and then begins again. A pod that
// waits for nothing but its finalizers is not deleted again.
//
// Clocks of the hub and of the target may differ by less than the five minutes; a pod on which its kubelet is at work
// changes, which the resource version shows.
//
// # Rights
//
// In the target: pods list and delete, in the namespaces that are configured. In the source, only with homeNamespace:
// pods list and delete in the home namespaces of the targets.
package stalepods
