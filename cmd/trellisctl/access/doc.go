// Package access has the commands that give their user access to a target: kubeconfig and kubectl.
//
//	registration --remote.Open--> TokenRequest in the target --> kubeconfig with a token for some minutes
//	                                                              kubeconfig: on stdout; kubectl: for one kubectl
//
// Nothing is stored, neither in a cluster nor on disk: on Linux, kubectl reads the kubeconfig from memory. The token is
// one of the service account whose token the registration has, unless another account is named. Nobody gets rights by
// this that he does not have: whoever may read the registration has those of the hub.
//
// Trade-offs: a token cannot be taken back before it ends, so it is short: 15 minutes, and ten at least, because API
// servers give none that are shorter. Systems without memfd get a file that only its user may read, which is deleted
// afterwards.
package access
