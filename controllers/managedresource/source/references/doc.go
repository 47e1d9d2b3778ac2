// Package references lists the Secrets that a ManagedResource refers to, each once, and bounds how many there may be.
//
// A ManagedResource of 1.5 MiB can hold 40,000 references, or refer 20,000 times to one Secret of 1 MiB. Everything
// that follows references (informer, index of Secrets, reconciler, command line) uses this list, so that the work is
// linear in what is written and what is kept does not exceed Max.
package references
