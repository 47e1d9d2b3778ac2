// Package leader sees to it that one replica of the hub writes, and only one.
//
// # How it works
//
// An Election contends for a Lease again and again, and runs a term each time it has it. Losing the Lease ends the term and not
// the process; the Lease is given back after the last write of a term, never before. The election is client-go's. A standby
// only looks at the Lease, four times a second, and lets client-go contend when it is free: it was given back, is gone, or nobody
// has renewed it for as long as it lasts. So a successor begins a quarter of a second after an orderly end at most, and the calls
// that take the Lease, and not at the next try of client-go, which is up to 2.2 retry periods away. After a crash it need not wait
// for two of them on top of the Lease.
//
// A term ends by a timer of its own when the Lease was not renewed until the renewal deadline, even while a call about the Lease
// hangs, or as soon as somebody else is seen to have the Lease. The Lease is renewed, where that is possible, and never given
// back while anything of the term still runs.
//
// A Fence guards the writes of a term, because a timer ends one only in a process that runs: one that was stopped, with its
// machine or by a signal, goes on with whatever it was doing, and by then another may lead. A write is sent only during a term,
// and while the time since the last renewal is less than the Lease lasts, less a margin; and not while the Lease is known to be
// gone, nobody's or somebody else's. Time is measured by the clock that counts only forward and by that of the wall, which goes on while a
// machine sleeps. No call is made for that, it is two readings of a clock. A socket of the fence asks once more for each piece
// that is written to it, because between the two a request is encoded, encrypted and queued.
//
// A write that is under way when its term ends may finish, for a second or the margin, whichever is less. The term waits for it,
// and so does the Lease. What is still under way then is given up, and so is what a timeout ends, at any time. The sockets of such
// a term, and those of one that lost the Lease, are closed. A socket that ends, also by the end of the process, is reset: what was
// left in its buffers, also in those of the kernel, is never sent.
//
// # Trade-offs
//
// What a kernel has sent is out of reach, and so is what a server has not finished by then: the margin is for these. A machine
// whose clocks stand still while it is stopped, and stay behind, cannot be fenced from inside; preconditions on UIDs and versions,
// which most writes have, are what is left then.
//
// The margin is half of what lies between the renewal deadline and the duration of the Lease, so that a term that is merely
// slow to renew is told to end before the fence closes, and keeps its sockets if it does so in time.
//
// A server that logs the ends of connections calls each of them a reset.
//
// To close the sockets costs a replica that lives on a new connection to each target. A socket does not know which write it is used
// for, and this is rarer than it would be worth finding out.
//
// Who deletes the Lease makes it free: another may take it a moment later, while the leader finds out at its next renewal, one
// retry period later at most.
//
// A caller that gives up a write has to wait for it as above. A timeout ends it at once: its own, or that of another call, if the
// term fails for it.
//
// A wall clock that is set forward costs the writes until the next renewal, one retry period.
//
// Events are not fenced: a late one tells of what was.
package leader
