// Package watching keeps declared watches going over a sequence of connections to a target.
//
// A Declared watch outlives connections: it holds what is kept of the objects, serves lookups and calls the handler. For
// each connection a Binding fills it: it finds the resource of the kind and has a follow.Follower list and watch it, whose
// sink it is. A binding counts from its promotion on. One that is not promoted yet collects its initial list and what
// follows beside the one that counts, so that a connection can be replaced without a gap: promotion stops the former
// binding, compares the two states and reports the difference.
//
// Reader answers reads of objects from watches that can: those that select everything and keep objects.
package watching
