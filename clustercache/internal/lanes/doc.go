// Package lanes bounds the work that all targets would do at the same time: lists after the start of the hub, watches
// that are opened again after its network was away, rotations, the second step of connecting.
//
// A bounded number of targets hold a place at a time, fair between namespaces and then between targets (package
// semaphore). A place is held for a limited time. A target that needs longer goes on without it, so that targets that
// hang cannot block places for longer, and counts as slow: until it completes something again, it waits in the slow
// lane, which has a fifth of the places in addition.
//
//	Acquire ---> fast lane: n places, each for a while
//	    `------> slow lane: n/5 places, each for a while, for targets whose last place was not enough
//
// The package does not know what the places are used for.
package lanes
