// Package state reads what webhooks have to know of targets.
//
// # How it works
//
// Everything is read live, by the connection that the hub has to the target anyway (package clustercache), with a
// deadline of a second, and kept for some seconds. So each replica can answer for each target, whether it leads or not,
// and whether it was just started. Requests that need the same at the same time share a call. Objects are cut down to
// what handlers look at. What is kept is bounded in bytes, for each target and for all of them: lists of nodes can be
// large.
//
// That something does not exist is never kept: a pod is created a moment after its ServiceAccount.
//
// Nodes and namespaces are those that were read last, for up to ten minutes, if the target cannot be asked. Nothing
// else is good enough for that: a token that is not mounted, or a number of replicas that is not the autoscaler's, is
// worse than a request that has to be repeated.
//
// # Trade-offs
//
// Watches would answer faster. They would take memory for each target on each replica, and a connection that is lost,
// or a list that is not complete, would need a live call all the same.
package state
