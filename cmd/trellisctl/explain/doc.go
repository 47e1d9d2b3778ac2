// Package explain has the commands that explain the cause of a problem: why and events.
//
// why reads the objects that a problem may come from, has package diagnosis find the cause, and prints it with the
// events about it.
//
// Of what controllers do in targets (access Secrets, CertificateSigningRequests, Nodes, network policies, garbage), why
// reports what they would do now. The judgement is that of the packages of the controllers, each of which has a
// function Explain for it; here are only what stops all of them, their settings, and the output.
//
// events lists the events about one ManagedResource or TargetCluster, the latest last.
package explain
