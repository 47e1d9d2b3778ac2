// Command chart generates what goes with the values of the Helm chart. "make generate" calls it.
//
//	chart DIRECTORY
//
// # How it works
//
// README.md is made of values.yaml: a row for each value, with its default and the comment above it. A value has a comment, or
// what it is part of has one; else nothing is generated.
//
// In values.schema.json, which is written by hand, the part about config is replaced: it follows from the Go types of the
// hub's configuration, less what the chart sets itself. So a key that the hub does not know is refused before
// anything is installed, with the path of the key.
//
// # Trade-offs
//
// The schema judges shapes, not sense: whether leaseDuration is longer than renewDeadline the hub says when it starts, or with
// --check before. The two conditions that people get wrong most often are there as well, see classSchema.
package main
