// Package heartbeat shows from outside whether the hub works.
//
// The leader renews one Lease on the source cluster, as long as it makes progress: as long as none of its loops is
// stuck. A Lease of the leader election says less. It is renewed by a goroutine of its own, whatever the rest of the
// process does.
//
//	Lease is fresh,  Connected is True       all is well
//	Lease is fresh,  Connected is not True   the hub works and does not reach that target
//	Lease is stale                           no hub watches any target; what their conditions say is as old as the Lease
//
// # When a loop is stuck
//
// Each loop reports since when it has been stuck, from its own state (Loops). An idle loop is alive. What counts are
// the hub's own loops: whether queues hand out what they could, whether handlers of events come to their ends, whether
// a term begins and ends. How long the work for one target takes does not count, even if it exceeds its deadline: that
// is counted and reported elsewhere, its worker is replaced, and no number of hostile targets makes the process
// restart. A class is stuck only when it has no worker left and none may be replaced any longer. A slow source does not
// make a loop stuck either: calls to it end in time.
//
// The Lease is not renewed as soon as something is stuck, because it only says so. The liveness of the process, by
// which it is restarted, waits longer.
//
// # Terms
//
// A term begins with what the predecessor left: the age of its Lease is for how long no hub watched. At the end of a
// term the Lease is left as it is. It runs out, or the successor renews it; giving it back would say that it was
// renewed now.
package heartbeat
