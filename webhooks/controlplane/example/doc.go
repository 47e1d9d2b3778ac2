// Package example is a whole provider of an infrastructure, to begin one from. It is part of the hub, under the name
// example, so that it can be tried out; no real infrastructure is of that name.
//
// # How it works
//
// Two webhooks change control planes of shoots. That for the infrastructure of the shoot leaves cloud resources to the
// provider's own controller manager: kube-controller-manager and kubelets get flags, and the former a volume with the
// configuration of the cloud. That for the infrastructure of the seed gives the Service of an API server an annotation,
// which load balancers look at.
//
// # Trade-offs
//
// The first one is for objects that Gardener has labelled to be changed, because it is for many kinds. The second one
// has no such selector: Gardener does not label Services. It is therefore for Services alone.
package example
