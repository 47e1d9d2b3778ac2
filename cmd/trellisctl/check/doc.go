// Package check has the commands check and version: whether everything is there that trellisctl and the hub need, and
// which versions work together.
//
//	rights    SelfSubjectAccessReviews for what commands do
//	CRDs      discovery of the two API groups, and the printer columns of ManagedResources
//	versions  of the client, the hub (annotation of its heartbeat) and the source cluster
//	hub       its heartbeat
//	targets   a connection to each, as commands make it
//
// Each check is one line with what to do if it fails; a check that cannot be made fails, too.
//
// Trade-offs: targets are connected to from here, not from the hub, whose own view is in TargetClusters. That is what
// status, tree and diff need.
package check
