// Package merge says what an object is to be, given its manifest (desired), what is in the target (live), and what the
// last apply set (base): the rules of a merge as functions without side effects.
//
// Most of an object is exactly the manifest. The exceptions are here: labels and annotations are merged three-way
// (metadata.go), and some fields keep their live value (payload.go, template.go, service.go), because an autoscaler, an
// operator or the API server itself has to own them.
//
// There are two ways of writing, and both follow the same rules. An apply sends only what the hub wants to own, so a
// kept field is sent with its live value if the hub owns it and left out otherwise (Keep with the owned fields):
// leaving out a field that one owns would delete it. A full update replaces everything, so it gets all kept fields
// (Object).
//
// Trade-offs: nothing here knows a schema; quantities and defaults are compared as they are written. Annotations by
// which the API server itself represents internal state count as the server's in any kind, which is harmless elsewhere.
package merge
