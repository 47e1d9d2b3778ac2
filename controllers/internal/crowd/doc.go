// Package crowd gives turns to those that have something to say at once, and would keep the source busy with it.
//
// When a network goes, hundreds of TargetClusters and thousands of ManagedResources have news within seconds. Each
// write costs the source several milliseconds, and whoever corrects drift elsewhere waits for it meanwhile. So each
// kind of news has a Crowd with a pace: a few write at once, and each of the others gets its time.
//
//	Wait ---> zero: write ---> Used
//	    `---> how long to wait, and then Wait again
//
// Whoever asks again keeps the place it has, and so does one that comes and goes: the line would become longer with
// each time. A turn that has come is kept for a while, for a write that has to be tried again.
//
// Trade-offs: who is among the few does not wait, and those of all kinds come in the same moment. As many as a second
// has turns were two hundred writes in one moment when a third of a thousand targets went. With a tenth of them, the
// last is told 0.9 s later. A place that nobody comes to any more is not given to others, so that what is told late
// does not come in one burst. Who decides what has to wait at all is up to the controllers: nothing here knows what is
// said.
package crowd
