// Package leader ensures that at most one replica of the hub writes.
//
// # How it works
//
// An Election contends for a Lease repeatedly, and runs a term each time it holds it. Losing the Lease ends the term
// and not the process. The Lease is released after the last write of a term, never before. The election is client-go's.
// A standby only reads the Lease, four times a second, and lets client-go contend when it is free: released, deleted or
// expired. So after an orderly end a successor begins within a quarter of a second, plus the calls that acquire the
// Lease. client-go alone would retry only after up to 2.2 retry periods, and after a crash would need two of them in
// addition to the duration of the Lease.
//
// A term ends by its own timer when the Lease was not renewed before the renewal deadline, even while a call about the
// Lease hangs, or as soon as another replica holds the Lease. While anything of the term still runs, the Lease is
// renewed if possible, and never released.
//
// A Fence guards the writes of a term, because a timer works only in a process that runs: a process that was stopped,
// with its machine or by a signal, continues where it was, and by then another replica may lead. A write is sent only
// during a term, and while the time since the last renewal is less than the duration of the Lease minus a margin; and
// not while the Lease is known to be deleted, released or held by another replica. Time is measured by the monotonic
// clock and by the wall clock, which continues while a machine sleeps. That costs two readings of a clock and no call.
// A socket of the fence checks again for each write, because between the two a request is encoded, encrypted and
// queued.
//
// A write in flight at the end of its term may finish, for a second or the margin, whichever is less. The term waits
// for it, and so does the release of the Lease. A write that is still in flight then is aborted, like one that ends by
// a timeout at any time. The sockets of such a term, and those of a term that lost the Lease, are closed. A socket that
// is closed, also by the end of the process, is reset: data left in its buffers, including those of the kernel, is
// never sent.
//
// # Trade-offs
//
// Data that the kernel has sent, and requests that a server has not finished, cannot be stopped: the margin covers
// these. A machine whose clocks stop with it and stay behind cannot be fenced from inside; then only the preconditions
// on UIDs and versions that most writes have protect the targets.
//
// The margin is half of the time between the renewal deadline and the duration of the Lease, so that a term which is
// only slow to renew is ended before the fence closes, and keeps its sockets if it ends in time.
//
// A server that logs the end of connections logs each as a reset.
//
// Closing the sockets costs the replica a new connection to each target. It is not known which socket a write used;
// this case is too rare to track that.
//
// Deleting the Lease makes it free: another replica may acquire it immediately, while the leader notices only at its
// next renewal, after at most one retry period.
//
// A caller that cancels a write has to wait for it as above. A timeout aborts it immediately: its own, or that of
// another call that makes the term fail.
//
// A wall clock that is set forward stops writes until the next renewal, for at most one retry period.
//
// Events are not fenced: a late one only reports the past.
package leader
