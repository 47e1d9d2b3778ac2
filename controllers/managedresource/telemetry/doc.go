// Package telemetry holds the metrics of runs over ManagedResources, and the events on them.
//
// Metrics live as long as the process, through all terms of leadership. Counters are counted where something happens.
// Gauges are computed when they are scraped, in one pass over the ManagedResources in memory, from the Term that the
// leading controller has begun; a replica that does not lead has none. Metrics of a target are dropped with its
// registration.
//
// The Recorder writes events within a rate for each ManagedResource, except for the last ones about objects that are
// left behind or all deleted, and counts what it writes about. Everything in an event that a target or a manifest said
// is bounded and made printable.
//
// # Trade-offs
//
// A scrape passes over all ManagedResources, so that nothing has to be kept up to date between scrapes. Names that
// clients of a target choose (field managers, kinds) are distinguished up to a number, and are "other" beyond it.
package telemetry
