// Package merge computes the object to write from its manifest (desired), the object in the target (live), and the
// labels and annotations of the last apply (base). Its functions have no side effects.
//
// Most of an object is exactly the manifest. This package has the exceptions: labels and annotations are merged
// three-way (metadata.go), and some fields keep their live value (payload.go, template.go, service.go), because an
// autoscaler, an operator or the API server itself has to own them.
//
// There are two ways of writing, and both follow the same rules. An apply sends only what the hub wants to own, so a
// kept field is sent with its live value if the hub owns it and left out otherwise (Keep with the owned fields):
// omitting a field that the hub owns would delete it. A full update replaces everything, so it has all kept fields
// (Object).
//
// Trade-offs: there is no schema; quantities and defaults are compared as text. Annotations in which the API server
// stores internal state belong to the server in objects of any kind, which is harmless for kinds without them.
package merge
