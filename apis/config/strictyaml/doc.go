// Package strictyaml reads configuration files into structs, and reports every fault in them at once, each with the
// path of its key and its line.
//
// # How it works
//
// Decode reads the YAML into a tree and decodes the tree against the types by reflection. It does not use a standard
// decoder, because those stop at the first fault, report a misspelt key without its position or a suggestion, and
// accept keys in any case.
//
// # Trade-offs
//
// Anchors, aliases and merge keys of YAML are rejected: with them, a path would not identify the position of a fault,
// and documents could expand without bound. The size of a file is bounded by the caller, which reads it.
package strictyaml
