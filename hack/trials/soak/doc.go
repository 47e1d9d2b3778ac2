// Package soak lets a hub run for long, with everything going on that goes on in a fleet, and looks whether anything is left
// behind: heap, goroutines, sockets, series of metrics.
//
// How it works: some targets stay for the whole time. Each minute, further ones are registered, filled, emptied and given up.
// Foreigners edit objects and contents change all the time; tokens and certificates rotate, and faults come and go, in those
// that stay. At the end of each minute all of that pauses until everything is corrected; then the hub collects its garbage,
// and a sample is taken (rig.Resources). The samples stand in the report, all of them.
//
// What must hold: goroutines, sockets and series are at the end what they were at the beginning, and the heap has no slope of
// more than 3 % over the run. The first fifth does not count, nor do the first two minutes: buffers find their sizes, series of
// things that happen for the first time appear, and what is left of closed connections for a while fills up. With less than 20 samples after it the slope is shown and
// fails nothing. Profiles of the heap are written at the first sample and at the end.
//
// The subcommand cycles does one thing as often as it can: targets come and go, while others are at work.
package soak
