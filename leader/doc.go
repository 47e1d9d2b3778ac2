// Package leader sees to it that one replica of the hub writes, and only one.
//
// # How it works
//
// An Election contends for a Lease again and again, and runs a term each time it has it. Losing the Lease ends the term and not
// the process; the Lease is given back after the last write of a term, never before. The election is client-go's. A standby
// only looks at the Lease, twice a second, and lets client-go contend when it is free: it was given back, is gone, or nobody
// has renewed it for as long as it lasts. So a successor begins half a second after an orderly end, and not at the next try of
// client-go, which is up to 2.2 retry periods away, and after a crash it need not wait for two of them on top of the Lease.
//
// A Fence guards the writes of a term. Timers end a term before the Lease runs out, but only in a process that runs: one that
// was stopped, with its machine or by a signal, goes on with whatever it was doing, and by then another may lead. So a
// fenced request that would change something is only sent while the time since the last renewal is less than the Lease lasts,
// less a margin, by the clock that counts only forward and by that of the wall, which goes on while a machine sleeps. A socket
// of a term asks once more for each piece that is written to it, because between the two a request is encoded, encrypted and
// queued. No call is made for that, it is two readings of a clock.
//
// # Trade-offs
//
// What a kernel has taken to send is out of reach, and so is what a server has not finished: the margin is for these. A machine
// whose clocks stand still while it is stopped, and stay behind, cannot be fenced from inside; preconditions on UIDs and
// versions, which most writes have, are what is left then.
//
// The margin is half of what lies between the renewal deadline and the duration of the Lease, so that a term that is merely
// slow to renew has ended by itself before the fence closes.
//
// A wall clock that is set forward costs the writes until the next renewal, one retry period.
//
// Events are not fenced: a late one tells of what was.
package leader
