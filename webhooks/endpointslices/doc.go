// Package endpointslices has the webhook endpoint-slice-hints: every endpoint with a zone is for callers of that zone.
//
// # How it works
//
// The hints of EndpointSlices with a label, which they get from their Service, are set when they are created or
// updated. What the controller of EndpointSlices has set is replaced: it spreads hints by the processors of zones, and
// drops them where there are few endpoints.
//
// # Trade-offs
//
// A zone whose only endpoint fails has no one else to go to until the EndpointSlice changes. From Kubernetes 1.31 on,
// spec.trafficDistribution of Services does the same without a webhook, and is to be preferred there.
//
// # Rights
//
// None.
package endpointslices
