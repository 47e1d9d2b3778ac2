// Package diagnosis finds the cause of what is wrong with a ManagedResource or a cluster.
//
// Possible causes are checked in their order of dependency, and the first one that applies is the result:
//
//	no hub works? -> suspended, paused or hibernated by a user? -> no class or target? -> the target does not respond?
//	-> Secrets cannot be read? -> not everything is applied? -> unhealthy? -> not rolled out?
//
// A Cause has what is wrong, since when, and what unblocks it, as a command if there is one. Messages of the hub's
// conditions are repeated. What the hub does not report, because it does not run or no class of it matches, follows
// from the heartbeat, registrations, classes and annotations.
//
// Causes are functions of the objects that were read (Facts), so each can be tested without a cluster, and a list of a
// fleet can use them without further requests.
//
// Trade-offs: one cause is reported, not all. What else is wrong shows when that one is removed.
package diagnosis
