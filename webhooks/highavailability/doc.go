// Package highavailability has the webhook high-availability-config: it makes workloads highly available as their
// namespace and their own labels say, so that those who deploy them need not know how many zones and nodes there are.
//
//	webhook.go   what is looked at, and what is done with Deployments, StatefulSets and HorizontalPodAutoscalers
//	settings.go  what a namespace and an object say
//	replicas.go  how many replicas
//	placement.go node affinity, topology spread and tolerations
//
// # How it works
//
// A namespace says which zones there are and what has to be tolerated, an object whether it is a controller or
// server. From that follow replicas, an affinity to the zones, a spread over nodes and zones, and how long pods
// stay on nodes that are lost. Each write of an object computes all of this again, from the object as it was sent.
// The webhook is idempotent.
//
// The namespace, the autoscalers beside the object and the number of nodes are read live. Without them it is not known
// how many replicas are right. The webhook does not guess: the failure policy decides.
//
// # Trade-offs
//
// Replicas that no autoscaler sets are lowered, too, with every write of the object. The scale subresource is not
// looked at, so that a user can scale by hand until then.
//
// When the number of nodes crosses two, workloads have to be written once more. A controller does that
// (controllers/nodehighavailability).
//
// # Rights
//
// In targets: namespaces get, horizontalpodautoscalers (autoscaling) list, nodes list.
package highavailability
