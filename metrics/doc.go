// Package metrics says what a metric of Trellis is. It holds none: metrics are defined and counted beside the code that they
// are about.
//
// A package that has metrics defines them in a Set, and hands the Set out. The reference page is generated from all Sets
// (hack/reference), and what a running hub shows is compared with them in a test, so neither can leave one out.
//
//	var (
//		MetricDefinitions = &metrics.Set{}
//		metricDepth       = MetricDefinitions.Gauge("trellis_queue_depth", "Items that wait for a worker.", "class")
//	)
//
// Names are trellis_<noun>_<what>_<unit>. What is told of each target is trellis_target_*, with the label "target"; all
// else is about the fleet. No label holds the name of an object or the text of an error, and whatever others can invent
// values of goes through Names.
//
// # Trade-offs
//
// Definitions are wrapped, because those of client_golang cannot be read again: a Desc does not say what type it is of.
package metrics
