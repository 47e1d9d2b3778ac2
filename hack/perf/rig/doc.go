// Package rig is what trials of a fleet play on: one real source control plane, a fleet of simulated targets in this
// process, and the hub as it ships, in a process of its own, so that the operating system accounts its processor time
// and memory separately from those of the simulator.
//
//	Rig         all of it, started and stopped together; the hub can be started and stopped on its own
//	Writers     fill the source, many at a time
//	Foreigner   edits objects in targets, past their faults, at an even pace
//	Corrections what the journals say of how long an edit lasted
//	Reference   corrects an object of its own as soon as it sees a change, as the hub does with its own
//	Resources   of the hub at a moment: memory, heap, goroutines, sockets, series of metrics
//
// Latencies are those of the journals: from the write of an edit to the write that undoes it, as the target itself orders them.
//
// Trade-offs: the simulator and the trial share a process and its garbage collector with the foreigner; all of them, the source
// and the hub share the processors of one machine. That is why there is a Reference.
package rig
