// Package objects is what a run does with the objects of a ManagedResource in their target.
//
//	Targets      the clients of a target, and which cluster it is
//	Plan         what a bundle means for a target: objects to apply, to release and to prune
//	Neighbours   which other ManagedResources list an object, and whose it is
//	Writer       applies, corrects and releases objects, and has the tracker know how they are right
//	Previewer    what a run would do, for classes that are a dry run
//
// The packages below engine know how one object is compared, applied and pruned. This one decides which: what did not
// change is not sent, what belongs to another ManagedResource is left alone, and replicas that an autoscaler sets are
// not written.
//
// # Trade-offs
//
// An object that is listed by several ManagedResources is read before it is written, which costs a request. One that
// no other lists costs none.
package objects
