// Package conditions puts what is known of a ManagedResource into the words of its conditions. All of it are pure
// functions.
//
//	what a run brought                    -> Run   -> ResourcesApplied
//	what the watches show of each object  -> Snapshot -> ResourcesHealthy, ResourcesProgressing
//	these three                           -> Ready -> Ready
//
// A message names every problem, a line each, bounded in number and length, so that no condition makes a
// ManagedResource too large. The worst comes first, and what others need before those that need it: reason and first
// line are those that a Gardener resource manager, which names one problem, would give. Everything is ordered, so the
// same state has the same text and is not written twice.
//
// Nothing is claimed that was not seen: the values that say that all is well need a Snapshot without gaps. While a gap
// is to close by itself, a Snapshot has no value at all, and what was said before stays.
//
// The summary is made of the three conditions alone, which a successor reads from the status, so that a restart does
// not change its text. It finds the first problem in their texts; List and headline are two sides of one format, in
// list.go.
package conditions
