// Package remote connects to targets: with a kubeconfig that somebody wants to register, or with the registration that the hub
// uses.
//
//	kubeconfig file -> Load -> Stored -> clustercache/kubeconfig.Parse -> Connect     what add and rotate do
//	ManagedResource -> Of -> registration Secret -> Open -> Connect                  what status, tree and diff do
//
// Whether a kubeconfig is fit for a hub is decided by the very code that the hub reads it with. What a hub refuses but can be
// mended on the way is mended here: files are read and embedded, other contexts are left out.
//
// To open a registration takes the right to read the Secret, which is the right to do everything in the target that the
// hub may do. Nobody gains anything by trellisctl that he does not have already.
//
// A connection refuses to be one to another cluster than the hub knows the target for: what is compared there would be nonsense.
package remote
