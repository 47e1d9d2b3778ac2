// Package telemetry has the metrics of package clustercache.
//
// A Fleet counts what happens over all targets. What a metric says of each target is read when it is collected, from a
// Snapshot, so that a target that is gone leaves no series behind. The exception is a histogram of each target, which
// is off by default and is dropped with the target.
package telemetry
