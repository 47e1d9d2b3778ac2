// Package status writes the status of ManagedResources, and the annotation that says what was applied.
//
// A change is a function that gets a Draft. The Writer adds what follows from it (Contested, Ready), compares the
// result with what the server has, and patches what differs; most runs write nothing. The Assessor sets the conditions
// about health from what the watches show, and leaves them as they are while something is not shown. The AppliedWriter
// keeps the annotation by which a successor finds out that nothing changed.
//
// # Trade-offs
//
// Writes about health alone are debounced for each ManagedResource, and writes about targets that are away share one
// rate. So a condition may be some seconds old while a whole fleet changes; what was applied or failed is written at
// once.
package status
