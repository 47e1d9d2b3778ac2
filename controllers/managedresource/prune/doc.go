// Package prune deletes objects from a target, and only those that are ours to delete.
//
// The inventory says what may be deleted. Before each delete the live object is read: it is left alone if its origin names
// somebody else, if it is not the object that was applied and nothing on it says that it is ours, if it asks to be kept,
// or if another ManagedResource lists it. The delete carries the UID that was looked at, so a stranger that takes the name
// in between is safe.
//
// Objects go in groups, the reverse of the order in which they came: what guards the API server, custom resources, then
// everything that keeps them served, and namespaces and definitions last. The next group waits until the one before it is
// gone, so that whoever removes a custom resource's finalizers is still there to do it.
//
// Nothing here waits: what is not gone yet is reported as pending, and the caller comes back when a watch says so.
package prune
