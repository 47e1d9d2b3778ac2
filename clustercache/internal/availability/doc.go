// Package availability knows which targets of a fleet are connected and which were lost, and judges by that how long a
// lost connection is to be kept.
//
// A connection that is lost is kept for a grace period: the target may be back in a moment. If many targets are lost
// together (a mass disconnect), it is more likely the hub's own network than they, and all lost connections are kept
// until most targets are back, for a bounded time.
//
// A Fleet is called for each target that is connected, lost or does not count. It has no goroutine and no clock of its
// own: each call says what time it is. What a lost connection is, and what is done with it, is for the caller to know.
//
// Trade-offs: losses count together for as long as a window lasts, whatever their reasons. A target that refuses the
// hub, or leads to another cluster, is therefore not reported as lost.
package availability
