// Package istioclusterconfig limits what Istio's ingress gateways of targets buffer for each connection to a Service.
// From the DestinationRules of a namespace it writes an EnvoyFilter into each namespace with such gateways, which sets
// the limit of the buffer and, for HTTP/2, the windows of streams and connections.
//
// # How it works
//
// What is reconciled is a namespace with DestinationRules, its source. A rule is about a Service, and exported to some
// namespaces, as the Service is. Where both are, the EnvoyFilter of the source has a patch for each port.
// DestinationRules, Services, Namespaces and the EnvoyFilters with the label of this controller are watched, and of
// each object only what matters is kept: a change that does not matter has nothing reconciled.
//
// Of an EnvoyFilter the fingerprint of its content is kept. One that differs from what is desired is written, one that
// is not desired is deleted, and a source whose filters are as they should be costs no call, even when the hub has
// just started.
//
// Requests that are not about a source are about a Service or a namespace with gateways. Their runs find out which
// sources they concern.
//
// Nothing is done before all watches of a target are complete, and while it does not have the kinds of Istio: its CRDs
// may come and go. A watch that is refused gives an event on the TargetCluster.
//
// # Trust
//
// Everything is what a target says, and works in that target only. Rules, ports, patches and filters are bounded. A
// rule that exceeds a bound is left out; a filter that would is left as it is. Both give an event in the
// target. The clusters of Envoy that patches name are made of the names of Services that exist, and what patches set
// is constant: a tenant decides only which Services have them, and whether they are for HTTP/2.
//
// An EnvoyFilter that does not have the label is never changed or deleted. If it has the name of one that is needed,
// it gets an event, and the source is tried again with backoff. An EnvoyFilter that has the label and a name that
// could be one of this controller is taken for its own.
//
// # Trade-offs
//
// A rule may name a Service of another namespace, because Istio allows it. What a gateway may see is for the owner of
// the Service to say, by its annotation. If several rules are about a Service, each has its patches, in the order of
// their names, and Envoy merges them.
//
// While a target does not serve DestinationRules in the version that is read, filters stay: they may still be there in
// another version. Filters also stay when their source is gone, which owns them, so that the target collects them,
// when the target is no longer registered, and when the controller is switched off for it.
//
// An index of what watches show is computed again after a change, and used for as long as there is none.
//
// # Rights
//
// In the source: events (events.k8s.io) create, patch. In the target, in all namespaces: destinationrules
// (networking.istio.io) list, watch; services and namespaces list, watch; envoyfilters (networking.istio.io) get,
// list, watch, create, patch, delete; events (events.k8s.io) create; namespaces/finalizers update where the admission
// plugin OwnerReferencesPermissionEnforcement is on.
package istioclusterconfig
