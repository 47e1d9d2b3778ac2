// Package kinds knows what a simulated API server serves and what a write makes of an object.
//
// It is pure: no storage, no HTTP, no clock of its own. See Registry for what is served, Resource.Next for writes.
package kinds
