// Package envelope opens what API servers send as Protocol Buffers: a prefix, and a message that names the type of
// another one and has it in it.
//
// The serializers of apimachinery do the same by way of a scheme, and allocate an object and a copy of the rest for
// each step. Here the caller knows what may be inside, and nothing is copied before the object itself. Trade-off: a
// type that is not expected is not distinguished by name from one that is broken.
//
// The senders are not trusted: the elements of a message are counted before anything of it is decoded, since a message
// of a few megabytes can become a hundred times as large when it is decoded.
package envelope
