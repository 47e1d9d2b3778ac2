// Package lanes bounds what all targets would do at the same time: lists after the start of the hub, watches that are
// opened again after its network was away, rotations, the second step of connecting.
//
// So many at a time hold a place, fair between namespaces and then between targets (package semaphore). A place is held
// for a while at most. Whoever needs longer goes on without it, so that targets that hang cannot keep places from
// others for longer than that, and counts as slow: until something is completed again, it waits in the slow lane, which
// has a fifth of the places on top.
//
//	Acquire ---> fast lane: n places, each for a while
//	    `------> slow lane: n/5 places, each for a while, for targets whose last place was not enough
//
// Nothing here knows what the places are for.
package lanes
