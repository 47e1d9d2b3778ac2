// Package mapperpool shares REST mappings between targets.
//
// A mapper built from a cluster's discovery takes about a megabyte, thirty times as much as everything else an idle
// connection needs, and clusters of one version with one set of CRDs have the same. A Pool therefore keys mappers by a
// hash of what they were built from. It is the one that a kube-apiserver uses as ETag of its aggregated discovery, so
// it can be offered to the next target. What a target says about its documents by its ETags is believed of that target
// only: one that gives the same tag to everything, or another one each time, concerns no other target. A Pool holds a
// bounded number of them; those in use live on in the Mapper of their target when the pool drops them, and are then
// merely not found again by others.
//
// A Mapper belongs to one connection. It asks for discovery when it is used first, when a kind is not known, after
// Reset, and when the target was found not to serve a resource where discovery said (Suspect), but never more often
// than Options.MinRefresh except after Reset: an unknown kind in a bundle must not turn into a stream of discovery
// calls. With an ETag such a call is answered 304 and costs next to nothing. A new target offers the ETags that were
// seen last, and if it is like its neighbours it never downloads discovery at all.
//
// No lock is held during a call: callers that need the same refresh share one flight, which has a deadline of its own
// and does not end with the caller that started it. A caller waits no longer than its context (the methods that take
// one), or than the connection lives.
//
// A refresh that failed is not repeated for as long as it took: a caller that asks for the kinds of many objects, one
// after the other, gets the error of the first for all of them.
//
// Answers are decoded value by value, and only what a mapper needs of them. Each byte, element, group, version and
// resource is counted before it is kept, over all answers that are read at the same time: a list of "{}" is a hundred
// times as large in memory as on the wire. A version of a group counts once, however often it is named.
//
// A group whose server is down (a broken APIService) is not the same as a kind that does not exist: for kinds of such
// groups the answer is the discovery error, never a NoMatch.
package mapperpool
