// Package hubtest runs whole hubs for tests and benchmarks: on real control planes, in this process, with the rights of the
// chart's own identity and nothing else.
//
// An Env is a source cluster with the CRDs and roles installed, and any number of targets. Each test takes a namespace of
// its own, registers a target in it, and creates ManagedResources there.
package hubtest
