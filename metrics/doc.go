// Package metrics has the types with which metrics of Trellis are defined. It has no metrics itself: they are defined
// and counted in the packages that they are about.
//
// A package that has metrics defines them in an exported Set. The reference page is generated from all Sets
// (hack/reference), and a test compares them with the metrics of a running hub, so that both are complete.
//
//	var (
//		MetricDefinitions = &metrics.Set{}
//		metricDepth       = MetricDefinitions.Gauge("trellis_queue_depth", "Items that wait for a worker.", "class")
//	)
//
// Names are trellis_<noun>_<what>_<unit>. Metrics of each target are trellis_target_*, with the label "target"; all
// others are about the fleet. No label has the name of an object or the text of an error, and labels whose values
// others choose are bounded by Names.
//
// # Trade-offs
//
// Definitions are wrapped, because those of client_golang cannot be read: a Desc does not have its type.
package metrics
