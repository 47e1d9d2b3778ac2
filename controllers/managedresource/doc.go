// Package managedresource keeps ManagedResources: it applies what their Secrets say to their targets, keeps it that
// way, and says in their conditions how it is.
//
// The package is the part between the engine, a library that makes a target look like manifests, and the clusters. Its
// own packages can be read alone:
//
//	run                 what a run is about, and what is remembered between runs
//	source/assignment   which class a ManagedResource belongs to, and which target
//	source/store        reading and writing ManagedResources
//	source/references   which Secrets a ManagedResource refers to
//	source/content      reading those Secrets, within the memory for bundles
//	source/secretindex  when the content of a ManagedResource changed
//	source/sharing      which other ManagedResources list an object
//	source/barrier      a cache barrier: a term begins with what the last one wrote
//	source/intern       equal texts of ManagedResources, interned
//	objects             what a run does with objects in their target: plan, ownership, writes, dry run
//	observe/tracker     watching what a ManagedResource owns
//	observe/view        what the watches show of it
//	observe/conditions  what is said of it in the conditions
//	observe/notes       what the target's events say beside
//	status              writing the status, and judging health for it
//	telemetry           metrics and events
//	dispatch            which ManagedResources an event concerns
//	workers             the queue and the workers of each class
//
// Every class has a queue and workers of its own; queues are fair between namespaces, then targets. A dispatcher sends
// events to the queue that is responsible. One reconciler serves all queues.
//
// # How a run reads
//
// A run is a scope that goes through phases (reconciler.go), each of which may end it. The gates find out whether and
// where a ManagedResource is worked on (gates.go). One that goes is cleaned up (delete.go). Any other is adopted by its
// target or migrated from the last one (adopt.go) and compared with it by one judgement of the watches (compare.go).
// What follows, if anything differs, goes from the Secret to the PATCH: read, connect, plan, and then either correct
// what drifted (correct.go) or mark, store the inventory, write, and conclude (write.go, conclude.go). The phases use
// parts that know nothing of them, and that get the subject of the run instead of its scope.
//
// What is remembered between runs is a run.State, which the one worker has that has the ManagedResource in hand. All of
// it may be lost: what was applied is noted on the ManagedResource, so a successor that finds all as it was writes and
// reads nothing.
//
// The rules that keep it safe: the inventory is written before the target is; what is deleted was in the inventory and
// is looked at first; a bundle that could not be read completely deletes nothing; a target is known by its UID, and a
// ManagedResource stays bound to the one that got its objects.
//
// # Back-pressure
//
//	per target           rate, requests in flight, breaker of its connection (clustercache), runs in flight (fairqueue)
//	per class            seats for runs that compute (fairqueue)
//	for the whole hub    memory of decoded bundles (a semaphore in engine/bundle)
//	per object           backoff of failed runs and of corrections (run)
//	towards the source   one rate for what thousands say at once, and debounced writes about health (status)
//
// # Trade-offs
//
// The status has one writer, here, so health is judged by the same runs that apply, and a run that applies for long
// delays the health of that one ManagedResource. A ManagedResource that an event names twice is judged twice; judging
// costs no call.
package managedresource
