// Package e2e has the end-to-end tests: whole hubs on several real control planes, observed from outside only, by the
// objects in API servers and the requests to them.
//
// One source and two targets are shared by all tests. Each test has a namespace of its own, in all three, and its own
// hub, which ends with the test. The requests of the hub to an API server are read from that server's audit log.
// Package writers has the tests about other writers of the same objects.
package e2e
