// Package app wires the hub together: configuration, the two identities on the source cluster, informers, the cluster
// cache, leadership, the controllers, and the endpoints for probes and metrics.
//
// Two kinds of parts are started. Those that every replica runs: informers of the source, the index of Secrets, the
// connections to targets; so that a standby is warm. And those that only the leader runs: the controllers. They are
// built again for each term of leadership and leave nothing behind, because losing the Lease ends a term and not the
// process. The Lease is given back after the last write of a term, never before, and connections to targets end
// after that.
//
// Trade-offs: the manager of controller-runtime is used for its cache, servers and orderly shutdown, but not for its
// leader election, which ends the process.
package app
