// Package fairqueue is the work queue of a class: it hands requests to reconcile workers so that no target can keep the
// others waiting.
//
// It implements controller-runtime's priorityqueue.PriorityQueue and keeps its rules: an item is in the queue once,
// with the highest priority and the shortest delay it was added with; an item being worked on is not handed out a
// second time, but again after Done if it was added meanwhile; delayed items wait aside.
//
// What it adds are tenants and lanes. Options.Tenant returns the tenant of an item, for Trellis a namespace of the
// source. The tenant that holds fewest places is served first, and of two the one that has been waiting longer. So a
// tenant gets no more by having more targets or more work. While others wait, a tenant gets half of the places at most,
// and never more than half of the workers for lanes that are not known to be fast (tenant.go).
//
// Inside a tenant there are lanes. Options.Lane names the lane of an item, for Trellis the target cluster it is about.
// The next item comes from the lane that has been waiting longest, of those with nothing in flight if there are any,
// within a lane by priority, within a priority first in, first out. Lanes whose first item is a change and those whose
// first is upkeep, such as drift, take turns, so that a change that comes to all targets at once does not keep what
// drifts elsewhere waiting, and the other way round; nor has one kind more than three quarters of the places, rounded
// up. Lanes with nothing but work in the background, of priorities below zero, come after the others, but for every
// eighth item, and have no more than that together with changes. At most Options.MaxInFlight items of a lane are handed
// out at once, so that a target that hangs holds that many workers and no more. Where many targets hang, that is still
// all workers: so an item that has been worked on for a while gives up its place to another (places.go), and its lane
// gets half of what others get. If that happens twice in a row, or to a lane that was not known before, the lane counts
// as slow, until an item of it is done in time again. Items of slow lanes need no place, but may keep no more than half
// of the workers that are there to wait. What is known of a lane outlives it (standing.go): where more targets hang
// than there are workers, the last workers are kept for lanes that were done in time.
//
// That takes seconds, in which targets that hang together could have all places, if there is something to do for each
// of them just then. So whoever knows is asked (silence.go): Options.Answers says of the target of an item that has
// been worked on for a fifth of a second whether it answers. If nothing came of that after as long again, and thrice as
// long as is usual, the item gives up its place at once; and while half as many targets as there are places are silent,
// it is asked before an item is handed out, and the item waits for the answer in the place of a worker.
//
// ManagedResources of a target that is down do not wait here: a run finds out without a call, says so, and they come
// back with the event that the target is there again.
//
//	Add ------> ready, by tenant and lane --- tenant with fewest places --- lane with the longest wait ---> Get
//	Add (delayed) -> delayed ----^      ^--- added while being worked on: after Done
//
// "Waiting since" is the later of two moments: when the lane was last served, and when its first item came. So a lane
// of one item is served after at most one item of each other lane of its kind, however many those hold, beside what the
// other kinds get; and a lane that is refilled the moment it is empty gains nothing by it.
//
// # How it works
//
// One mutex guards everything. Entries sit in heaps that know where each entry is, so that adding, raising, handing out
// and moving to another lane are all O(log n), and a lane that holds nothing does not exist, nor does a tenant
// without lanes. There is no goroutine: Get does the choosing, Done and Add wake those that wait in Get, and one
// timer, set for the first delayed item, moves what is due.
//
// # Trade-offs
//
// Across lanes, priority counts only as far as it tells the kinds of work apart: what drifts in one cluster waits for
// one retry of each other cluster that is ahead, but not for their resyncs, which with a thousand clusters took
// seconds. The alternative, priority first and fairness second, lets one busy cluster starve the rest.
//
// Where all work is of one kind, a quarter of the places is not used, as in a first apply. Kept only once something of
// another kind waits, it would be of no use: places that are held by targets which hang come free after a fraction of a
// second. Of three places or fewer nothing is kept.
//
// A lane is chosen when an item becomes ready, not when it is handed out. If the lane of an item changes, the item
// stays where it is until it is added again.
//
// Lanes that nothing is known of are held for neither. They share the places with the others, but when nearly all
// workers wait for lanes that hang, a new one waits until one of those gives up.
//
// A lane that was swift is trusted until an item of it takes long. If more targets than there are places stop answering
// at once, with something urgent for each, the first of them have all places until they are found to be silent, and the
// others wait for less than half a second. A target that answers probes and no calls is not silent: many of those have
// the places in turns of the patience, and if they are more than the workers, all workers, until their calls end. From
// then on they are trusted no more. Without Options.Answers that is so of all that hang: with 300 of 1,000 targets and
// 20 places an edit in another target was corrected after up to eight seconds.
//
// While many are silent, each item costs its target a request more, unless it has answered another one just now, and
// its work waits that long.
//
// A tenant never gets all workers for slow lanes, even if no other one has work, unless there never was another one:
// they may be held for as long as a run takes, and other tenants may need one meanwhile. Without places, one quarter of
// the workers is kept in the same way.
//
// Slow lanes keep to their half even if places are free. Each would give up the place after a while and be followed by
// the next, until they had the other half as well, which is there for lanes that have still to prove slow.
//
// Adding is synchronous, unlike in the queue of controller-runtime, which buffers first: what Add returns from is
// visible to Len and Get.
package fairqueue
