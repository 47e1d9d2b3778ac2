// Package prune deletes objects from a target, and only those that this ManagedResource may delete.
//
// The inventory says what may be deleted. Before each delete the live object is read. It is kept if its origin
// annotation names another ManagedResource, if it is not the object that was applied and has no origin of ours, if it
// has the annotation keep-object, or if another ManagedResource that may manage it lists it. While it is not known
// which ManagedResources may manage it, it stays. The delete has the UID and the resourceVersion that were read as
// preconditions, so that an object which was recreated or taken over meanwhile is not deleted. A namespace or a
// definition waits while it contains objects of others or objects that are to stay, because its deletion would delete
// them (holders.go). Objects that no inventory lists are not searched for: they are deleted with their namespace, as
// usual.
//
// Objects are deleted in the reverse order of applying (order.go), but each waits only for objects that need it: all
// for the webhooks, workloads and settings for custom resources that may need them to finish, access and configuration
// for the workloads whose pods use them (uses.go), a definition for its instances, a namespace for its contents.
//
// What blocks others is deleted first: the webhooks, and an APIService whose server is unavailable, unless it may serve
// objects again later (servers.go). What no API server deletes is released (undeletable.go).
//
// Nothing here waits: an object that still exists is reported as pending, and the caller tries again on an event of a
// watch, or when the period of finalize-deletion-after is over (grace.go). The reason of such an object is what the
// target reports (blockers.go). On request, the claims of a StatefulSet are deleted first (claims.go).
//
// Trade-offs: an object costs two calls, a read and a delete whose response says whether the object is gone. A kind
// that is not served counts as gone only if discovery is complete and nothing defines it (kinds.go), which costs a few
// calls for such kinds. What pods use is read from the workloads that still exist; their roles are not determined, so
// all roles wait for all workloads.
package prune
