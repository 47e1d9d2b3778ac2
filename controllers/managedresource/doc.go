// Package managedresource keeps ManagedResources: it applies what their Secrets say to their targets, keeps it that way,
// and says in their conditions how it is.
//
// The package is the part between the engine, a library that makes a target look like manifests, and the clusters. Its
// own packages can be read alone:
//
//	source/assignment   which class a ManagedResource belongs to, and which target
//	source/store        reading and writing ManagedResources
//	source/references   which Secrets a ManagedResource refers to
//	source/secretindex  when the content of a ManagedResource changed
//	source/sharing      who else lists an object
//	source/catchup      beginning a term with what the last one wrote
//	source/canon        equal texts of ManagedResources, kept once
//	observe/tracker     watching what a ManagedResource owns
//	observe/view        what the watches show of it
//	observe/conditions  what is said of it in the conditions
//	observe/notes       what the target's events say beside
//	dispatch            whom an event concerns
//
// Every class has a queue and workers of its own; queues are fair between namespaces, then targets. A dispatcher sends
// events to the queue that is responsible: changes of ManagedResources and Secrets, drift, targets that connect and
// disconnect. A reconciler serves all queues. Its runs end in one of four ways: nothing changed (compare with what the
// watches show), single objects drifted (correct), the input changed (apply all), or the ManagedResource goes (delete).
//
// The rules that keep it safe: the inventory is written before the target is; what is deleted was in the inventory and is
// looked at first; a bundle that could not be read completely deletes nothing; a target is known by its UID, and a
// ManagedResource stays bound to the one that got its objects.
//
// A Controller lives for one term of leadership and leaves nothing behind. The memory of a term may be lost at any time:
// what was applied is noted on the ManagedResource, so a successor that finds all as it was writes and reads nothing.
//
// Trade-offs: the status has one writer, here, so health is judged by the same runs that apply, and a run that applies for
// long delays the health of that one ManagedResource. A ManagedResource that an event names twice is judged twice; judging
// costs no call.
package managedresource
