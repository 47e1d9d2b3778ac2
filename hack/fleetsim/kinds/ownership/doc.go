// Package ownership keeps managedFields: who owns which field of an object.
//
// The work is done by the field managers of k8s.io/apimachinery, one for each subresource, which New sets up for a
// kind: its schemas, its versions, the paths that a write there cannot change and thus does not own. Around them, Stamp
// gives what they note the time of the server's own clock, and Same reports whether an object differs from another in
// more than such times, that is whether a write changed anything.
//
// The trade-off: a field manager knows the wall clock alone, and what it has touched can only be recognised
// by a new time.
package ownership
