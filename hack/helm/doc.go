// Package helm runs the Helm CLI, in the version that hack/tools/helm pins, for tests of the chart.
//
// # Trade-offs
//
// Helm has a module of its own, so that nothing else is compiled with it. The first test that needs it builds it, which takes
// minutes; the executable then stays in the cache of Go, and a call takes a quarter of a second.
package helm
