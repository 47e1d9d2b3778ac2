// Package document writes YAML documents with comments, key by key.
//
// A key is set by its path, and comments are added to it. Keys stand in the order in which they were set, which
// encoders of Go values do not keep.
//
// Trade-offs: lists have one element at most, which is all that a converted configuration needs.
package document
