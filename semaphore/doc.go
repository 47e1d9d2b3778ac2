// Package semaphore bounds the use of resources that all targets share: connection attempts, large answers,
// decoded content.
//
// It is a weighted semaphore whose places are fair between namespaces first and then between the owners of a namespace.
// A namespace of the source is the tenant: with one queue for all, a tenant that registers five hundred targets that
// hang would block all others.
//
//	Acquire ---> namespace that holds least ---> its owner that holds least ---> first in, first out
//
// Two bounds come on top of the size: what the owners of one namespace hold together, and what one owner holds, where
// an owner that holds nothing else may be allowed more. A request that is held back by one of them does not delay
// others. A request that only lacks free places is not overtaken by smaller ones, so that large requests are not
// starved.
//
// # Trade-offs
//
//   - A release looks at every namespace and owner that waits. That is a few microseconds for hundreds of them, and
//     saves the invariants of a heap whose order changes with each release.
//   - Work whose size becomes known only while it is done has a Lease, which grows if there is room and never waits for
//     more: a holder that gets none releases everything, and waits for all of it.
//   - A waiter holds nothing of the semaphore. Callers must not acquire twice for one piece of work: two callers that
//     wait for each other's second half would wait until their deadlines.
package semaphore
