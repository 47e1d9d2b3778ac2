// Package workers has the queue and the workers of each class, and watches for runs that do not end.
//
// A class has many more workers than runs that may compute at the same time (seats): a run that waits for its target
// costs a goroutine and nothing that others need. A class with a fixed target has no other target to protect, so its
// workers need no seats. Requests are ordered by package fairqueue, between namespaces, then targets.
//
// Runs are measured. One that does not return after its context has ended is logged with its stack, counted, and gives
// up its seat. Only if such runs occupy all workers of a class is the process stuck, which its liveness probe reports.
//
// # Trade-offs
//
// A run that hangs is not ended, which Go cannot do. It keeps its worker and its share of its target until it returns.
package workers
