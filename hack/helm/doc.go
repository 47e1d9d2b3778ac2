// Package helm runs the Helm CLI, in the version that hack/tools/helm pins, for tests of the chart. See package tools
// for how it is built. A call takes a quarter of a second.
package helm
