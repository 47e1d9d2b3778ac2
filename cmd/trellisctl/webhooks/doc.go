// Package webhooks has the command that frees a cluster of the webhooks of a hub when the hub itself cannot do so,
// because it is gone permanently, or the registration was deleted first.
//
// It works in the cluster of the kubeconfig, which is not that of the hub, and needs no hub. API servers never call
// webhooks about configurations of webhooks, so these cannot prevent it.
package webhooks
