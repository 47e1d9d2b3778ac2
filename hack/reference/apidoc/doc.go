// Package apidoc writes pages of documentation from the comments of API types and constants: Types a page of all kinds and their
// fields, Keys one of annotations, labels and finalizers, Conditions one of conditions and reasons.
//
// It reads the source, not the compiled package, because that is where comments are. Types that are not in the packages read
// are named with their package and not described.
//
// # Trade-offs
//
// There are generators for API pages, and controller-gen is one of their cousins. They know fields and nothing of constants,
// so keys and reasons, which is what people look up, would need a second reader of the same comments.
package apidoc
