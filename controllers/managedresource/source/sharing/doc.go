// Package sharing knows which ManagedResources list which objects in which cluster. Before every delete, and before
// every write to an object that several may list, it answers which other ManagedResources list the object.
//
// The Index holds the inventories of all ManagedResources, those included that are ignored, of a class that is not ours
// any longer, or reach the same cluster through another registration: what they list is theirs all the same. It is fed
// by the informer of ManagedResources and by the hub's own writes, whichever is newer, so that an inventory that this
// process wrote ahead is known before the first write to the target.
//
// What a ManagedResource says of itself, by annotation, finalizer or status, is a claim. Within its namespace it
// counts, because a user who may write one ManagedResource there may write the others. For other namespaces it counts
// only if a Verifier says that the hub itself saw the namespace reach the location (package assignment,
// Assigner.AccessTo). Locations of different kinds are of different types, so that no text can be taken for another
// kind of location.
//
// The rules for an object of two ManagedResources: the one that listed it last takes it, the other stops writing it and
// says so; neither deletes it while the other lists it (Index.Others). One that is being deleted, and does not keep its
// objects, has no say. Two that stop listing it at the same time must not leave it to each other: the second one to
// give it up learns that it is the last (Index.GiveUp).
//
// Trade-offs: the index costs about 150 bytes an object, which saves reading every ManagedResource of the fleet for
// each delete. Clusters are distinguished by the UID that a ManagedResource is bound to. One that another instance
// applied and that is not bound yet counts by its namespace and finalizer (Unbound); one without either lists nothing.
// The Verifier is asked each time and its answers are not cached, so that they are never older than the connections
// that they come from.
package sharing
