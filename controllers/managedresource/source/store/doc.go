// Package store reads and writes ManagedResources in the source cluster.
//
// The informer of ManagedResources lags behind the server, and a reconciler must not act on a state that is older than
// what it wrote itself: an inventory that goes back in time would lose objects, or delete what was left to others. A
// Store answers from the informer, unless it wrote something newer. After a write of which it is unknown whether it was
// executed (no answer, a conflict) it asks the server, and says nothing while that fails.
//
// Writes are merge patches of what changed, with the version that they are based on, and are answered with metadata
// only.
//
// Trade-offs: what was written is kept until the informer shows it, which is one copy for each ManagedResource that is
// being worked on. A change by another client makes a write fail, and the run that it belongs to starts again.
package store
