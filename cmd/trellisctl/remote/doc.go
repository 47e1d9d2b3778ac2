// Package remote connects to targets: with a kubeconfig that is to be registered, or with the registration that the hub
// uses.
//
//	kubeconfig file -> Load -> Stored -> clustercache/kubeconfig.Parse -> Connect     what add and rotate do
//	ManagedResource -> Of -> registration Secret -> Open -> Connect                  what status, tree and diff do
//
// Whether a hub accepts a kubeconfig is decided by the same code as in the hub. Some things that a hub refuses are
// fixed here: files are read and embedded, other contexts are removed.
//
// Opening a registration needs the right to read the Secret, which implies all rights of the hub in the target. So
// trellisctl does not give its users additional rights.
//
// Connecting fails if the cluster is not the one that the hub knows as the target: results would be wrong there.
package remote
