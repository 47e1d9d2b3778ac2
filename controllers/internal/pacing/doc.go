// Package pacing paces writes to the source that many ManagedResources or TargetClusters have to make at once.
//
// When a network goes, hundreds of TargetClusters and thousands of ManagedResources have to say that their targets are
// down. Each write costs the source several milliseconds, and a controller that corrects drift elsewhere waits for the
// source meanwhile. So each kind of such writes has a Pacer with a rate: a few are made at once, and each of the others
// gets a time of its own.
//
//	Delay ---> zero: write ---> Written
//	    `----> how long to wait, and then Delay again
//
// A Pacer is a token bucket (golang.org/x/time/rate) with a reservation for each name. A name that asks again keeps its
// reservation, and so does one that has nothing to write for a while: otherwise the line would grow each time. A
// reservation that is due is kept for a while, for a write that has to be tried again.
//
// # Trade-offs
//
// The burst is a tenth of the rate. A burst of a second's writes made two hundred of them at one moment when a third of
// a thousand targets went, and with a tenth the last write is made 0.9 s later. A reservation that is not used is not
// given to another name, so that late writes do not come in one burst. What has to be paced at all is for the
// controllers to say.
package pacing
