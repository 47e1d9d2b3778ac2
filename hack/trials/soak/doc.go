// Package soak lets a hub run for long, with everything going on that goes on in a fleet, and looks whether anything is left
// behind: heap, goroutines, sockets, series of metrics.
//
// How it works: some targets stay for the whole time. Each minute, further ones are registered, filled, emptied and given up.
// Foreigners edit objects and contents change all the time; tokens and certificates rotate, and faults come and go, in those
// that stay. At the end of each minute all of that pauses until everything is corrected; then the hub collects its garbage,
// and a sample is taken (rig.Resources). The samples stand in the report, all of them.
//
// What must hold: series of targets are at the end exactly what they were at the beginning; goroutines, sockets and all series
// are so within 3 %, and within half of what one for each target that came and went would be; none of these, nor the heap, has a
// slope of more than 3 %. The first fifth does not count, nor, of the heap, do the first two minutes: buffers find their sizes,
// series of things that happen for the first time appear, and what is left of closed connections for a while fills up. With less
// than 20 samples after it slopes are shown and have no goal; less than 4 fail the run. Profiles of the heap are written at the first sample and at the end.
//
// The subcommand cycles does one thing as often as it can: targets come and go, while others are at work.
package soak
