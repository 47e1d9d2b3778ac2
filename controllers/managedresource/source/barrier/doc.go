// Package barrier waits, at the start of a term of leadership, until the informer of ManagedResources shows what the
// previous leader wrote.
//
// Caches are warm before leadership, and nothing says that they are not behind. A leader that works with a
// ManagedResource as it was a moment ago does harm: it applies content that was replaced, which rolls objects back; and
// an object that the former leader took off the inventory and deleted is created again, but the write that would list
// it meets a newer ManagedResource and fails, and the object is in no inventory. Writes to ManagedResources carry their
// version and cannot go wrong in that way, but a run that has nothing to write before it touches the target has no such
// guard.
//
//	live list (metadata, in pages) -> which ones is the informer behind with -> wait for each
//
// Trade-offs: one list of metadata for each term. The version of the collection alone would be cheaper to get, but an
// informer receives it with its next event only, which may be a minute away.
package barrier
