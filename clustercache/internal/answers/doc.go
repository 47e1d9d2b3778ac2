// Package answers bounds the answers of targets while they are read. All clients that the hub uses towards targets are
// on top of it.
//
// A Transport decides by the request what its answer may be: how many bytes after decompression, how many elements, how
// deeply nested, in which encoding. An answer that exceeds a bound, or is in another encoding, fails while it is read
// with an error that wraps untrusted.ErrExceeded or is an *EncodingError, and names the request. Answers that are
// errors are read in full, up to 64 KiB, and their messages are bounded before the client sees them.
//
// Most answers are small, and are read without a seat. One that is larger needs a seat in a budget that all targets
// share, which has two semaphores, for medium and for large ones, fair between namespaces:
//
//	small  64 KiB, 1,024 elements   as many as there are calls
//	medium 1 MiB, 8,192 elements    4 a target, 16 a namespace, 128 in all
//	large  8 MiB, 131,072 elements  1 a target, 2 a namespace, 12 in all
//
// An answer that waits for a seat holds no more than what it has read. Its deadline does not run meanwhile. A seat is
// given back when the answer was read or closed, or at the end of a Scope: a decoded object is several times as large
// as its text, so clients open a Scope for the time of decoding, and callers that keep an object while they work with
// it open one for that time.
//
// # Trade-offs
//
//   - Only JSON is counted here. Clients that prefer Protocol Buffers get JSON, unless they are marked with Counted:
//     those count the elements of a message themselves before they decode it.
//   - Streams of events, and lists that are decoded item by item, need no seat: they are open for long. Their readers
//     bound single events and items.
//   - An answer needs a medium seat first and then a large one. No holder of a large seat waits for a medium one, so
//     two answers never wait for each other.
package answers
