// Package soak lets a hub run for long, with everything that happens in a fleet, and looks whether anything is left
// behind: heap, goroutines, sockets, series of metrics.
//
// How it works: some targets stay for the whole time. Each minute, further ones are registered, filled, emptied and given up.
// Foreigners edit objects and contents change all the time; tokens and certificates rotate, and faults come and go, in those
// that stay. At the end of each minute all of that pauses until everything is corrected; then the hub collects its garbage,
// and a sample is taken (rig.Resources). The samples stand in the report, all of them.
//
// What must hold: series of targets are at the end exactly what they were at the beginning; goroutines, sockets and all series
// are so within 3 %, and within half of what one for each target that came and went would be; and none of these has a slope of more
// than 3 %. The first fifth does not count, nor, of memory, do the first two minutes: buffers find their sizes, series of things that
// happen for the first time appear, and what is left of closed connections for a while fills up. With less than 20 samples after it
// slopes are shown and have no goal; less than 4 fail the run. Profiles of the heap are written at the beginning and at the end.
//
// The heap is another matter, since the events client keeps each event for 6 to 12 minutes: it grows for as long, and then goes up and
// down. Its slope counts after 13 minutes, over the means of whole rounds of 6 minutes, of which there have to be 4.
//
// The subcommand cycles does one thing as often as it can: targets come and go, while others are at work. It may be over before
// events are gone. So the hub is left alone for 13 minutes before and after, and what its heap has more then is divided by the targets
// that came and went. With 500 of them 2 KiB are seen, such as a ManagedResource. 1 KiB takes 5,000, and less cannot be
// distinguished from tables that are bounded, but not yet full.
package soak
