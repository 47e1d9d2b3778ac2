// Package check has the commands check and version: whether trellisctl and the hub have what they need, and which
// versions are in use.
//
//	rights    SelfSubjectAccessReviews for the requests of commands
//	CRDs      discovery of the two API groups, and the printer columns of ManagedResources
//	versions  of the client, the hub (annotation of its heartbeat) and the source cluster
//	hub       its heartbeat
//	targets   a connection to each, as commands make it
//
// Each check is one line, with advice if it fails.
//
// Trade-offs: targets are connected to from here, because status, tree and diff do so. The view of the hub is in
// TargetClusters.
package check
