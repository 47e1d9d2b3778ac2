// Package access has the commands for access to a target: kubeconfig and kubectl.
//
//	registration --remote.Open--> TokenRequest in the target --> kubeconfig with a token for some minutes
//	                                                              kubeconfig: on stdout; kubectl: for one kubectl
//
// Nothing is stored, neither in a cluster nor on disk: on Linux, kubectl reads the kubeconfig from memory. The token is
// one of the service account whose token the registration has, unless another account is named. No user gains rights: a
// user who may read the registration has those of the hub already.
//
// Trade-offs: a token cannot be revoked, so its duration is short: 15 minutes by default, and ten at least, because API
// servers issue none that are shorter. On systems without memfd, the kubeconfig is in a file that only the user may
// read, which is deleted afterwards.
package access
