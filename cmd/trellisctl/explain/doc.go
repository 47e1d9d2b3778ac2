// Package explain has the commands that say why something is not as it should be: why and events.
//
// why asks one question after the other, in the order in which one thing is the cause of another, and stops at the first whose
// answer is a cause:
//
//	a hub works at all? -> somebody wished it so (suspended, paused, hibernated)? -> a class and a target? -> the target answers?
//	-> the Secrets can be read? -> everything is applied? -> healthy? -> rolled out?
//
// A Cause has what is wrong, since when, and what unblocks it, as a command where there is one. What the hub says itself in
// conditions is repeated in its words; what it cannot say, because it is not there or because nobody asked it to work, is found
// out from the heartbeat, registrations, classes and annotations.
//
// Everything here is a function of what was read (Facts), so each cause has a test without a cluster.
//
// events lists the events about one ManagedResource or TargetCluster, the latest last.
package explain
