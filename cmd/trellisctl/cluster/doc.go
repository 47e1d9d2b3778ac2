// Package cluster has the commands about targets: add, list, describe, rotate and remove.
//
// A target is registered by a Secret in the layout of Cluster API, which is all that add writes into the source
// cluster. The state of a target is in the TargetCluster of the same name, which is all that list and describe read, so
// they need no right to read credentials. rotate replaces the content of the Secret and waits until the TargetCluster
// shows the new credential. remove deletes the Secret.
//
//	kubeconfig file --check, connect--> [service account + token] --check, connect--> Secret --> hub --> TargetCluster
//
// Instead of the credential of an administrator, that of a service account can be stored (package account): it is
// created in the target, bound to a ClusterRole, and gets a token that expires. The Secret's annotations record that,
// and rotate renews such a token with the token itself. Several registrations may share an account; remove deletes it
// with the last one.
//
// # Trade-offs
//
// Nothing is written before a connection with exactly the kubeconfig that will be stored has succeeded. This machine
// may reach the target although the hub does not; only --wait checks that.
//
// No credential is ever printed, and errors of parsers that may quote one are not passed on.
//
// A token cannot be revoked. After rotate, the old one is valid until it expires.
package cluster
