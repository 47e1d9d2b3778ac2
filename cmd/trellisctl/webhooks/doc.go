// Package webhooks has the command that frees a cluster of the webhooks of a hub, when the hub itself cannot do so: it is
// gone for good, or the registration was deleted first.
//
// It works in the cluster that the kubeconfig names, which is not that of the hub, and needs no hub. API servers never
// call webhooks about configurations of webhooks, so that nothing can stop it.
package webhooks
