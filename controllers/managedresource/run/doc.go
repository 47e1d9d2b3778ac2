// Package run holds what one run over a ManagedResource is about, and what is remembered of it between runs.
//
// A Subject is the ManagedResource with its class, its target and the State that the run's worker has. Parts that know
// nothing of the phases of a run get the Subject: contents, objects, status, telemetry. What phases find out for later
// ones stays with the reconciler.
//
// A State is a plain struct without a lock, which States hands to one worker at a time: what was applied and with which
// result, pauses after failures, pauses between corrections of the same object, objects that were left to other
// ManagedResources, the pace of writes about health, and the content of the Secrets as long as there is memory for it.
// All of it may be lost. Interrupted, Lacks, Latencies and DryRuns are asked by other goroutines, and have locks.
//
// # Trade-offs
//
// A Subject is changed by the parts that get it (MR is replaced by what the server answers), which saves a copy of each
// status. Fields of State that several parts use are exported instead of having methods that only read and write them.
package run
