// Package prune deletes objects from a target, and only those that are ours to delete.
//
// The inventory says what may be deleted. Before each delete the live object is read: it is left alone if its origin
// names somebody else, if it is not the object that was applied and nothing on it says that it is ours, if it asks to
// be kept, or if another ManagedResource that has a say in it lists it. While it is not known which ones have a say, it
// stays. The delete carries the UID and the version that were looked at, so a stranger that takes the name in between
// is safe, and so is an object that another one claims in between. A namespace or a definition in which others still
// have objects, or of which an object is to stay, waits for them, because its deletion would delete them (holders.go).
// What no inventory names is not looked for: it goes with its namespace, as with any other deletion of it.
//
// Objects go in the reverse of the order in which they came (order.go), but each waits only for what needs it: all for
// the webhooks, workloads and settings for custom resources that may need them to end, access and configuration for the
// workloads whose pods use them (uses.go), a definition for its own instances, a namespace for its own contents.
//
// What blocks others goes first: the webhooks, and an APIService whose server is away, unless there may be objects
// behind it that come back with it (servers.go). What no API server deletes is released (undeletable.go).
//
// Nothing here waits: what is not gone yet is reported as pending, and the caller comes back when a watch says so, or
// when the grace of finalize-deletion-after is over (grace.go). Its reason says what holds it, in the words of the
// target (blockers.go). Of a StatefulSet, the claims go first if that is asked for (claims.go).
//
// Trade-offs: an object costs two calls, a look and a delete whose answer tells what is left. A kind that is not served
// counts as gone only if discovery is whole and nothing defines it (kinds.go), which costs a few calls for such kinds.
// What pods use is read from the workloads that are still there; which roles they have is not asked, so all roles wait
// for all of them.
package prune
