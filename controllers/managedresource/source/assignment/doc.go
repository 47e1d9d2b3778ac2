// Package assignment decides whether this hub reconciles a ManagedResource, under which of its classes,
// and which target it belongs to.
//
// The namespace is the boundary of trust. A ManagedResource reaches a registration of its own namespace, or the target
// of a class that the operator opened for its namespace by a selector. Nothing written on the ManagedResource widens
// that: labels choose among the candidates, and the UID mark only says where objects were left.
//
// The same boundary decides whose lists count when objects are deleted (AccessTo). Within a namespace all do. Between
// namespaces the hub must have seen both reach the cluster: by a class of the operator, or by registrations that led to
// one API server, identified by its address and certificates, which accepted the credentials of both. A UID proves
// nothing, for a server may claim any. In the beginning of a term, while registrations connect for the first time,
// objects whose lists may turn out to count are not deleted yet.
//
// A ManagedResource that is not claimed is not written to, not even its status. Decisions are made from memory, by the
// informers and the cluster cache, so they may be taken as often as convenient.
package assignment
