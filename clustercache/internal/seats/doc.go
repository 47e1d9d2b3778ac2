// Package seats bounds the work that all targets would do at the same time: lists after the start of the hub, watches
// that are opened again after its network was away, rotations, the second step of connecting.
//
// The terms are those of API priority and fairness. Each target is a flow, and a bounded number of seats is shared
// fairly between namespaces and then between targets (package semaphore). A seat is held for a limited time. A target
// that needs longer continues without it, so that targets that hang cannot keep seats, and counts as slow: until it
// completes something again, it waits for one of the slow seats, of which there are a fifth as many in addition.
//
//	Acquire ---> n seats, each for a while
//	    `------> n/5 slow seats, each for a while, for targets whose last seat was not enough
//
// Trade-offs: work that outlasts its seat is not counted any longer, so the bound is one on the beginnings of work, not
// on all of it. The package does not know what the seats are used for.
package seats
