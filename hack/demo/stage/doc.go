// Package stage is what the demo and the benchmark play on: real clusters, the hub as a child process with the rights of the
// chart's identities and nothing else, and eyes outside the hub.
//
//	Cluster    a control plane with clients of its administrator
//	Access     what a registration holds: a token of a cluster administrator in the target, which can be taken back
//	Hub        bin/trellis as it runs in production, on free loopback ports
//	Board      what the hub says on the source cluster, as it changes
//	Follower   one object of a cluster, as it changes
//
// Nothing outlives the process that uses it. The control planes see to that themselves; the hub has a small shell beside it
// that reads from a pipe of which this process holds the other end, and kills the hub when that end is gone.
//
// Trade-offs: package hubtest runs hubs inside the test process, which is quicker to debug and cannot be measured; here the
// hub is the binary that ships, whose time the operating system accounts for.
package stage
