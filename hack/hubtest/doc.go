// Package hubtest runs whole hubs for tests and benchmarks: on real control planes, in this process, with the rights of the
// chart's own identity and nothing else.
//
// A Suite starts a source cluster with the CRDs and roles installed, and targets, which all tests of a package share. Each
// test takes a namespace of its own, registers a target in it, and creates ManagedResources there. A Recorder remembers all
// that was ever said of them.
package hubtest
