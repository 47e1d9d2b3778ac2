// Package faults brings each fault of the simulator together with each phase of what the hub does with a target: connecting,
// listing, watching, applying, pruning, deleting.
//
// How it works: some targets are healthy all the time. For each fault there are faulty targets of its own, one for each phase:
// the fault is set, and then what begins the phase is done, so that the phase meets the fault. A while later the fault is lifted,
// and each of them has to come to its end by itself: what was to be done is done, the target is shown as up, and another edit
// is corrected. Meanwhile foreigners edit objects in the healthy targets, and their ManagedResources change, at an even pace:
// with the faults, and without them before and after.
//
//	disorders.go  the faults: how each is set and lifted
//	phases.go     what begins a phase, and when it has come to its end
//	windows.go    latencies of the healthy targets, and how they are compared
//	faults.go     one fault after the other
//
// What must hold: recovery, and what the journals say. No target is deleted from wrongly, nothing is created twice, and
// to healthy targets nothing is written that was there already. Faulty ones may see the same write twice: without an
// answer, the hub does not know whether a request was executed.
//
// The latencies of healthy targets may be 1.2 times their baseline. The machine is shared with the servers of all of them, so
// two allowances are made, which are printed and bounded: the baseline is multiplied by what the reference lost in the same windows,
// twice at most, and as much is added as baselines differ from their median in the median, half of it at most. If that is not
// enough, windows with the fault and without it are repeated, twice if need be, and medians of all windows are compared, before the
// property counts as broken. Where reference or baselines say that the machine was more restless than that, the comparison is inconclusive, which
// is neither; too many of those are a goal that is missed. An edit that is not corrected after a window counts with the time
// for which it has lasted, and none may stay.
//
// Trade-offs: all phases of a fault are struck at once, which says less about who disturbs the healthy ones, and more about how
// much; and a phase that ends within the time before the fault bites has not met it in its midst.
package faults
