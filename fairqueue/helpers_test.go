package fairqueue

import (
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
)

// newTestQueue returns a queue of items "lane/name" with a fake clock. It is shut down when the test ends.
func newTestQueue(t testing.TB, options Options[string]) (*Queue[string], *clocktesting.FakeClock) {
	clock := clocktesting.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	options.Clock = clock
	if options.Lane == nil {
		options.Lane = laneOf
	}
	q := New("test", options)
	t.Cleanup(q.ShutDown)
	return q, clock
}

// laneOf returns what is before the slash.
func laneOf(item string) string {
	lane, _, _ := strings.Cut(item, "/")
	return lane
}

// limit is a MaxInFlight that is the same for every lane.
func limit(n int) func(string) int {
	return func(string) int { return n }
}

// priority returns options for a priority.
func priority(p int) priorityqueue.AddOpts {
	return priorityqueue.AddOpts{Priority: &p}
}

// available reports whether Get would return at once.
func available(q *Queue[string]) bool {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	return q.nextLane() != nil
}

// take hands out everything that can be handed out, in order.
func take(q *Queue[string]) []string {
	var items []string
	for available(q) {
		item, _ := q.Get()
		items = append(items, item)
	}
	return items
}

// elapse lets time go by, and waits until those that took long by then have given up their places. There must be no
// delayed items.
func elapse(g Gomega, q *Queue[string], clock *clocktesting.FakeClock, d time.Duration) {
	// A look at who took long goes by the time at which it began, so none may be under way.
	g.Eventually(func() bool {
		q.mutex.Lock()
		defer q.mutex.Unlock()
		return (q.aging != nil) == clock.HasWaiters()
	}, 30*time.Second).Should(BeTrue())
	clock.Step(d)
	g.Eventually(func() bool { return overdue(q) }, 30*time.Second).Should(BeFalse())
}

// work hands out n items one after the other, each Done before the next.
func work(t testing.TB, q *Queue[string], n int) []string {
	t.Helper()
	var items []string
	for range n {
		NewWithT(t).Expect(available(q)).To(BeTrue(), "after %v", items)
		item, _ := q.Get()
		items = append(items, item)
		q.Done(item)
	}
	return items
}

// addMany adds the items "lane/0", "lane/1", ...
func addMany(q *Queue[string], lane string, n int) {
	for i := range n {
		q.Add(fmt.Sprintf("%s/%d", lane, i))
	}
}

// faults looks for what must never be: lanes, heaps, counters and flights that contradict each other, and caps that are
// not kept.
func faults(q *Queue[string]) (found []string) {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	fault := func(broken bool, format string, arguments ...any) {
		if broken {
			found = append(found, fmt.Sprintf(format, arguments...))
		}
	}

	ready, held := 0, 0
	for name, l := range q.lanes {
		canServe := !l.held && l.ready.len() > 0 && l.inFlight < q.atMost(l)
		fault(l.key != name, "lane %s is listed as %s", l.name, name)
		fault(l.ready.len() == 0 && l.inFlight == 0, "lane %s is empty", name)
		fault(canServe != (l.index != notInHeap), "lane %s can be served: %t, and is in the heap: %t", name, canServe, !canServe)
		ready += l.ready.len()
	}
	for s := range standings {
		for u := range urgencies {
			tenants := q.serving[s][u].things
			for i, t := range tenants {
				fault(q.tenants[t.name] != t, "tenant %s can be served and is not listed", t.name)
				fault(t.index[s][u] != i, "tenant %s is in the wrong place", t.name)
				fault(i > 0 && t.before(tenants[(i-1)/2]), "tenant %s comes too late", t.name)
				fault(t.serving[s][u].len() == 0, "tenant %s has nothing to serve", t.name)
			}
			for _, t := range q.tenants {
				things := t.serving[s][u].things
				fault(len(things) > 0 != (t.index[s][u] != notInHeap),
					"tenant %s has %d lanes to serve and is at %d", t.name, len(things), t.index[s][u])
				for i, l := range things {
					fault(q.lanes[l.key] != l, "lane %s can be served and is not listed", l.key)
					fault(l.standing != s || l.urgency != u || q.wants(l) != u || l.index != i, "lane %s is in the wrong place", l.key)
					fault(i > 0 && l.before(things[(i-1)/2]), "lane %s comes too late", l.key)
				}
			}
		}
	}

	inFlight, waiting, busy, placed := map[string]int{}, map[string]int{}, [standings]int{}, 0
	for item, f := range q.inFlight {
		name := f.lane.key
		fault(q.lanes[name] != f.lane, "lane %s of %s is not listed", name, item)
		inFlight[name]++
		busy[f.lane.standing]++
		if f.place == nil {
			waiting[name]++
		} else {
			placed++
		}
	}
	for name, n := range inFlight {
		fault(n > max(1, q.options.MaxInFlight(name)), "%d items of lane %s are handed out", n, name)
	}
	for name, l := range q.lanes {
		fault(l.inFlight != inFlight[name] || l.slow != waiting[name], "lane %s has miscounted", name)
	}
	owned := map[string]*tenant[string]{}
	listed := 0
	for _, t := range q.tenants {
		owned[t.name] = &tenant[string]{}
		if t.listed > 0 {
			listed++
		}
	}
	fault(q.waiting != listed, "%d tenants wait, not %d", q.waiting, listed)
	for _, l := range q.lanes {
		o := owned[l.tenant.name]
		o.lanes++
		o.ready += l.ready.len()
		o.busy[l.standing] += l.inFlight
		if l.index != notInHeap {
			o.listed++
		}
	}
	for _, f := range q.inFlight {
		if f.place != nil {
			owned[f.lane.tenant.name].placed++
		}
	}
	for name, t := range q.tenants {
		o := owned[name]
		fault(t.lanes != o.lanes || t.lanes == 0 || t.ready != o.ready || t.busy != o.busy ||
			t.placed != o.placed || t.listed != o.listed,
			"tenant %s has miscounted", name)
	}
	silent := 0
	for _, asked := range q.asked {
		if asked.silent {
			silent++
		}
	}
	fault(q.silent != silent, "%d are silent, not %d", silent, q.silent)
	for name, l := range q.lanes {
		fault(l.held && q.asked[name] == nil, "lane %s is held for nothing", name)
	}
	yielded := 0
	for item, f := range q.inFlight {
		fault(f.place != nil && f.yielded != nil, "%s has its place and has yielded it", item)
		if f.yielded != nil {
			yielded++
		}
	}
	fault(q.yielded.Len() != yielded, "%d have yielded, not %d", yielded, q.yielded.Len())
	for _, e := range q.entries {
		if e.held {
			held++
		}
	}
	fault(q.ready != ready+held, "%d entries are ready and %d held, not %d", ready, held, q.ready)
	fault(q.busy != busy, "busy are %v, not %v", busy, q.busy)
	fault(q.placed.Len() != placed || q.options.Places > 0 && placed > q.options.Places, "%d of %d have a place", q.placed.Len(), placed)
	return found
}
