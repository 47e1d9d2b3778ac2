// Package bundle decodes what the Secrets of a ManagedResource hold: raw bytes in, objects and faults out.
//
// A bundle is read in a fixed order: Secrets as they are referenced, the keys of a Secret sorted bytewise, the
// documents of a key from top to bottom. A key that ends in ".br" is Brotli-compressed. Beneath that, a value is
// multi-document YAML, JSON objects one after the other, or JSON documents with "---" between them. Every document has
// a Position that says where it stands, in words a user can follow: Secret, key, and number of the document.
//
//	Source (Secret data) -> read (Brotli, size) -> split -> parse (JSON, YAML) -> lists -> normalize (depth, size) -> Object
//	                                                                                              any step fails   -> Fault
//
// A document of a kind like List or RoleList that has items and no name stands for its items, as for kubectl. They
// count against the limits like documents.
//
// Decode is a pure function. A Cache is an LRU cache in front of it, keyed by content: a chart that is deployed into
// 500 targets is decompressed and parsed once. Where each target has values of its own, the documents without such
// values are parsed and held once. Cached content has no Secret names; a Bundle is a cheap view of it that adds them.
//
// # What can go wrong
//
// Any author of a Secret in a tenant's namespace decides what is parsed here, in a process that serves hundreds of
// targets. So:
//
//   - A document that cannot be parsed is a Fault, and the documents after it are still read. When the bytes themselves
//     cannot be trusted (a Brotli stream that is cut, damaged or followed by other data), nothing of that key is used:
//     the last document of a cut stream is often well-formed, but only half of what its author wrote.
//   - A Bundle with a Fault is not Complete. Nothing may be deleted because it is missing from such a bundle.
//   - Documents, text, memory, and size, elements and nesting of a document are bounded by Limits; YAML aliases count
//     as what they expand to. After 100 faults the rest is not read. Elements are counted before a document is parsed,
//     because a parser takes up to 256 bytes for each.
//   - The text of a Fault never quotes the content of a Secret. The parsers' own messages sometimes do ("unknown anchor
//     'hunter2'"), so only messages that are known to be constant are passed on.
//
// A document without kind or apiVersion is no Fault: it was read completely. It cannot be applied, and Object.Invalid
// says why. One that has both and no name is a Fault.
//
// # The budget
//
// A few bytes of Brotli become many MiB of objects, and a run holds them for as long as its target takes to answer. So
// all bundles of a process share a budget, and each use of one is a Session:
//
//	Begin (waits for memory) -> Add a Secret -> ... -> Decode (estimate, reserve, decode) -> in use -> Close
//	                              no memory for more: releases all, BusyError, the run is retried
//
// An upper bound of the memory for decoding is estimated from the text and reserved before. It is released once the
// bundle is decoded, which waits for no target. Then the size of what is in use is known: the objects, their JSON, and
// what is sent at the same time. Content that several sessions use counts once, for one of their owners. Both budgets
// and the slots for decoding are fair between namespaces (package semaphore). Bundles of less than freeBytes do not
// count: they are bounded by the number of runs, and so they never wait for targets of others.
//
// The memory of the Cache and of Secret data in its original form (Keep) have bounds of their own. What a Session uses
// counts there as well, since it is not known which of them drops it first.
//
// # Trade-offs
//
// A key is decompressed as a whole before it is split, instead of document by document. That costs memory up to
// Limits.Bytes while one bundle is decoded (a Cache decodes only few at once). In return, a damaged stream is detected
// before any of it is used, and the code works on slices. The key is decompressed once before that, to determine its
// size, which takes a few percent of the time to parse it.
//
// YAML is read by go.yaml.in/yaml/v2, as kubectl and Gardener do: YAML 1.1, where yes and on are booleans and
// the last of two equal keys wins. Its tree is converted here rather than by sigs.k8s.io/yaml, because that
// package turns YAML into JSON text first: a few kilobytes of aliases to one long string become gigabytes there
// before they can be counted.
package bundle
