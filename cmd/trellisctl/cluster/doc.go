// Package cluster has the commands about targets: add, list, describe, rotate and remove.
//
// A target is registered by a Secret in the layout of Cluster API, which is all that add writes into the source cluster. What
// the hub knows of a target is the TargetCluster of the same name, which is all that list and describe read, so they need no
// right to read credentials. rotate replaces the content of the Secret and waits until the TargetCluster shows the new
// credential. remove deletes the Secret.
//
//	kubeconfig file --check, connect--> [service account + token] --check, connect--> Secret --> hub --> TargetCluster
//
// Instead of the credential of an administrator, a service account of its own can be stored (account.go): it is created in the
// target, bound to a ClusterRole, and gets a token that ends. The Secret's annotations say so, and rotate renews such a token
// with the token itself. Several registrations may share an account, those of other hubs included, so the account has an annotation
// for each that uses it: remove takes off its own, and deletes the account with the last one.
//
// # Trade-offs
//
// Nothing is written before a connection worked with exactly what is going to be stored. That this machine reaches the target does
// not mean that the hub does; only --wait tells.
//
// No credential is ever printed, and errors of parsers that may quote one are not passed on.
//
// An annotation stays if a registration goes in another way than by remove, or changes to another account. The account stays then, too:
// somebody may have to delete it by hand, but nobody loses it who needs it.
//
// A token cannot be revoked. The old one stays good until it ends, which is why its life is bounded.
package cluster
