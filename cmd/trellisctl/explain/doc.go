// Package explain has the commands that explain the cause of a problem: why and events.
//
// why checks possible causes in their order of dependency, and stops at the first one that applies:
//
//	no hub works? -> suspended, paused or hibernated by a user? -> no class or target? -> the target does not respond?
//	-> Secrets cannot be read? -> not everything is applied? -> unhealthy? -> not rolled out?
//
// A Cause has what is wrong, since when, and what unblocks it, as a command if there is one. Messages of the hub's
// conditions are repeated; what the hub does not report, because it does not run or is not responsible, is found out
// from the heartbeat, registrations, classes and annotations.
//
// Causes are functions of the objects that were read (Facts), so each can be tested without a cluster.
//
// Of what controllers do in targets (access Secrets, CertificateSigningRequests, Nodes, network policies, garbage), why
// says what they would do now. The judgement is that of the packages of the controllers, each of which has a function
// Explain for it; here are only what stops all of them, their settings, and the output.
//
// events lists the events about one ManagedResource or TargetCluster, the latest last.
package explain
