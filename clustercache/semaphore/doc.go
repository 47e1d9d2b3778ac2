// Package semaphore bounds what targets take of something that all of them share: connection attempts, large answers,
// decoded content.
//
// It is a weighted semaphore whose places are fair between namespaces first and then between the owners of a namespace. A
// namespace of the source is the tenant: with one queue for all, whoever registers five hundred targets that hang keeps
// everybody else waiting.
//
//	Acquire ---> namespace that holds least ---> its owner that holds least ---> first in, first out
//
// Two bounds come on top of the size: what the owners of one namespace hold together, and what one owner holds. Whoever
// is held back by one of them keeps nobody else waiting. A request that only lacks free places is not overtaken by smaller
// ones, so that large requests are not starved.
//
// # Trade-offs
//
//   - A release looks at every namespace and owner that waits. That is a few microseconds for hundreds of them, and saves
//     the invariants of a heap whose order changes with each release.
//   - Work whose size shows only while it is done has a Lease, which grows if there is room and never waits for more:
//     who gets none gives everything back, and waits for all of it.
//   - A waiter holds nothing of the semaphore. Callers must not acquire twice for one piece of work: two that wait for each
//     other's second half would wait for their deadlines.
package semaphore
