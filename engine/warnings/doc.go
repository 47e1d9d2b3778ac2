// Package warnings reads the last Warning events of an object. For a load balancer that is not provisioned, they are
// the only place that has the cloud provider's error.
//
// Notes change only when something new happens: they contain when an event began, not how long ago, and only the order
// of magnitude of its count. Otherwise every repetition would be a write of the status.
package warnings
