// Package untrusted bounds what targets and tenants send before it is decoded, kept or shown.
//
// A bound on bytes alone is not enough: two bytes of JSON become a map of fifty bytes in memory, or a struct of three
// hundred. So Reader counts elements and nesting while the bytes are read, in one pass over them, and fails with an
// *ExceededError as soon as there are too many. It neither copies nor keeps anything, and does not validate the JSON,
// which the decoder behind it does.
//
// Text that is kept or shown (names, versions, messages) is bounded by Name, Token and Message: valid UTF-8, one line,
// and of a length that Kubernetes itself would accept.
//
// # Trade-offs
//
//   - Commas and opening brackets are counted, not values: that needs no parser, and is never less than the number of
//     values.
//   - Encodings other than JSON are not counted. Callers request JSON, and reject other content types.
package untrusted
