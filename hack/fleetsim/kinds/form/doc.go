// Package form reads the objects of a kind so that they look as a real server stores them.
//
// A Form decodes a document strictly, reports what it has no place for, fills in defaults and checks the result.
// Typed does it by the Go type of a built-in kind: what the type does not have is dropped, package defaults knows
// what is missing, and of what is there the metadata alone is checked. The form of a custom resource, by its
// schema, is in package custom.
//
// Scheme has the Go types, of client-go, of CustomResourceDefinitions and the APIService of this package. Schemas are
// the few OpenAPI schemas that no library carries.
//
// The trade-off: the way through a Go type costs most of what a write costs, but there is no second description of a
// kind that could differ from it.
package form
