// Package e2e holds the end-to-end tests: whole hubs on several real control planes, looked at from outside only, through
// what API servers hold and were asked.
//
// One source and two targets are shared by all tests. Each test has a namespace of its own, in all three, and its own hub,
// which ends with the test. What the hub asked of an API server is read from that server's audit log. Package writers, below,
// holds those about others who write to the same objects.
package e2e
