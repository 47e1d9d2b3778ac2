// Package cluster has the commands about targets: add, list, describe, rotate and remove.
//
// A target is registered by a Secret in the layout of Cluster API, which is all that add writes into the source
// cluster. The state of a target is in the TargetCluster of the same name, which is all that list and describe read, so
// they need no right to read credentials. rotate replaces the content of the Secret and waits until the TargetCluster
// shows the new credential. remove deletes the Secret.
//
//	kubeconfig file --check, connect--> [service account + token] --check, connect--> Secret --> hub --> TargetCluster
//
// Instead of the credential of an administrator, that of a service account can be stored (account.go): it is created in
// the target, bound to a ClusterRole, and gets a token that expires. The Secret's annotations record that, and rotate
// renews such a token with the token itself. Several registrations may share an account, including those of other hubs,
// so the account has an annotation for each that uses it: remove removes its own, and deletes the account with the last
// one.
//
// # Trade-offs
//
// Nothing is written before a connection with exactly the kubeconfig that will be stored has succeeded. This machine
// may reach the target although the hub does not; only --wait checks that.
//
// No credential is ever printed, and errors of parsers that may quote one are not passed on.
//
// An annotation stays if a registration is deleted without remove, or changes to another account. Then the account
// stays as well and may have to be deleted by hand, but it is never deleted while it is in use.
//
// A token cannot be revoked. The old one is valid until it expires, which is why its duration is bounded.
package cluster
