// Package semaphore bounds the use of resources that all targets share: connection attempts, large answers,
// decoded content.
//
// It is a weighted semaphore that is fair between namespaces first and then between the owners of a namespace. A
// namespace of the source is a tenant: with one queue for all, a tenant that registers five hundred unresponsive
// targets would block all others.
//
//	Acquire ---> namespace that holds least ---> its owner that holds least ---> first in, first out
//
// There are two bounds in addition to the size: what the owners of one namespace hold together, and what one owner
// holds, where an owner that holds nothing else may be allowed more. A request that is blocked by one of them does not
// delay others. A request that only lacks free capacity is not overtaken by smaller ones, so that large requests are
// not starved.
//
// # Trade-offs
//
//   - A release visits every waiting namespace and owner. That takes a few microseconds for hundreds of them, and
//     avoids a heap whose order would change with each release.
//   - Work whose size becomes known only while it is done uses a Lease, which grows if there is capacity and never
//     waits for more: a holder that gets none releases everything, and waits for all of it.
//   - A waiter holds nothing of the semaphore. Callers must not acquire twice for one piece of work: two callers that
//     wait for each other's second half would wait until their deadlines.
package semaphore
