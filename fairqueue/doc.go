// Package fairqueue is the work queue of a controller that works in many targets: it hands out requests so that no
// target and no namespace keeps the others waiting. Its terms are those of API priority and fairness.
//
// It implements controller-runtime's priorityqueue.PriorityQueue and keeps its rules: an item is in the queue once,
// with the highest priority and the shortest delay it was added with; an item being worked on is not handed out a
// second time, but again after Done if it was added meanwhile; delayed items wait aside.
//
// # Back-pressure
//
// This is the whole design of it. What is scarce is rationed where it is used, and waiting is not scarce:
//
//   - Per target: its client bounds the rate and the number of calls in flight, and a target that is down is not
//     called (package clustercache). This queue bounds how many items of a flow, the work for one target, are in
//     flight (Options.MaxInFlight).
//   - Per class: seats (Options.Seats) bound how many runs are at work at the same time. A run has a seat from the start
//     and as long as its target answers (Call). When it has waited four times as long as answers take at present, 10 ms
//     to a second, it gives the seat up, and from then on it costs a goroutine and nothing that others need. So targets
//     that hang or are far away cannot keep seats. The number of goroutines is the one bound on waiting runs, and
//     generous.
//   - For the whole hub: semaphores bound what takes memory or would be done for all targets at once, such as decoded
//     bundles, large answers, dials and lists (package semaphore).
//   - Per object: a failed run is repeated after a pause that grows.
//   - Towards the source: writes that only say that targets are down are paced (package pacing).
//
// # Order
//
// Items are of one of three levels by their priority: changes that users or other clients made, upkeep such as
// drift, and the background, which is not urgent. Changes and upkeep alternate, so that a change that comes to all
// targets does not delay corrections. One item in eight is of the background while there is any, and it has at
// most half of the workers.
//
// Within a level, the tenant with the fewest seats comes first, and of two such the one that has waited longer. Within
// a tenant, a flow with nothing in flight comes first, and of two such the one that has waited longer; within a flow
// the priority decides, then the order of arrival. A tenant has at most three quarters of the seats and of the workers,
// and half while others wait, unless there never was another one.
//
// "Has waited" counts from the later of two moments: when the flow was last served, and when its first item came. So a
// flow gains nothing by having many items, nor by being refilled at once.
//
// # How it works
//
// One mutex guards everything. Entries sit in heaps that know where each entry is, so that adding, raising, handing out
// and moving to another flow are all O(log n). A flow that holds nothing does not exist, nor does a tenant without
// flows. There is no goroutine: Get does the choosing, Done, Add and Yield wake those that wait in Get, and one timer,
// set for the first delayed item, moves what is due.
//
// # Trade-offs
//
// Across flows, priority counts only by level. The alternative, priority first and fairness second, lets one busy
// target starve the rest.
//
// What a run computes after it gave up its seat is not rationed. If all runs gave it up at their first call, a fleet
// that starts would work on all its targets at once, at twice the cost of an object and of memory.
//
// A flow is chosen when an item becomes ready, not when it is handed out. If the flow of an item changes, the item
// stays where it is until it is added again.
//
// Adding is synchronous, unlike in the queue of controller-runtime, which buffers first: what Add returns from is
// visible to Len and Get.
package fairqueue
