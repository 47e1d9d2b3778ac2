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

// newTestQueue returns a queue of items "flow/name" with a fake clock. It is shut down when the test ends.
func newTestQueue(t testing.TB, options Options[string]) (*Queue[string], *clocktesting.FakeClock) {
	clock := clocktesting.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	options.Clock = clock
	if options.Flow == nil {
		options.Flow = flowOfName
	}
	q := New("test", options)
	t.Cleanup(q.ShutDown)
	return q, clock
}

// flowOfName returns what is before the slash.
func flowOfName(item string) string {
	flow, _, _ := strings.Cut(item, "/")
	return flow
}

// limit is a MaxInFlight that is the same for every flow.
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
	return q.next() != nil
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

// takeAndYield hands out everything that can be handed out, each of which gives up its seat at once.
func takeAndYield(t testing.TB, q *Queue[string]) []string {
	var items []string
	for available(q) {
		item, _ := q.Get()
		Yield(q.Context(t.Context(), item))
		items = append(items, item)
	}
	return items
}

// serve hands out n items one after the other, each Done before the next.
func serve(t testing.TB, q *Queue[string], n int) []string {
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

// addMany adds the items "flow/0", "flow/1", ...
func addMany(q *Queue[string], flow string, n int) {
	for i := range n {
		q.Add(fmt.Sprintf("%s/%d", flow, i))
	}
}

// faults looks for what must never be: flows, heaps and counters that contradict each other, and bounds that are not
// kept.
func faults(q *Queue[string]) (found []string) {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	fault := func(broken bool, format string, arguments ...any) {
		if broken {
			found = append(found, fmt.Sprintf(format, arguments...))
		}
	}

	ready, held := 0, 0
	for name, f := range q.flows {
		canServe := f.ready.len() > 0 && f.inFlight < q.maxInFlight(f)
		fault(f.key != name, "flow %s is listed as %s", f.name, name)
		fault(f.ready.len() == 0 && f.inFlight == 0, "flow %s is empty", name)
		fault(canServe != (f.index != notInHeap), "flow %s can be served: %t, and is in the heap: %t", name, canServe,
			!canServe)
		ready += f.ready.len()
	}
	for l := range levels {
		tenants := q.serving[l].things
		for i, t := range tenants {
			fault(q.tenants[t.name] != t, "tenant %s can be served and is not listed", t.name)
			fault(t.index[l] != i, "tenant %s is in the wrong place", t.name)
			fault(i > 0 && t.before(tenants[(i-1)/2]), "tenant %s comes too late", t.name)
			fault(t.serving[l].len() == 0, "tenant %s has nothing to serve", t.name)
		}
		for _, t := range q.tenants {
			things := t.serving[l].things
			fault(len(things) > 0 != (t.index[l] != notInHeap),
				"tenant %s has %d flows to serve and is at %d", t.name, len(things), t.index[l])
			for i, f := range things {
				fault(q.flows[f.key] != f, "flow %s can be served and is not listed", f.key)
				fault(f.level != l || q.levelOf(f.ready.first()) != l || f.index != i, "flow %s is in the wrong place", f.key)
				fault(i > 0 && f.before(things[(i-1)/2]), "flow %s comes too late", f.key)
			}
		}
	}

	type counts struct{ flows, ready, inFlight, seated, listed int }
	total, perLevel := counts{}, [levels]int{}
	perFlow, perTenant := map[*flow[string]]counts{}, map[*tenant[string]]counts{}
	for item, w := range q.inFlight {
		fault(q.flows[w.flow.key] != w.flow, "flow %s of %s is not listed", w.flow.key, item)
		perLevel[w.level]++
		f, t := perFlow[w.flow], perTenant[w.flow.tenant]
		for _, c := range []*counts{&total, &f, &t} {
			c.inFlight++
			if w.seated {
				c.seated++
			}
		}
		perFlow[w.flow], perTenant[w.flow.tenant] = f, t
	}
	for _, f := range q.flows {
		c := perFlow[f]
		fault(f.inFlight != c.inFlight || f.seated != c.seated, "flow %s has miscounted", f.key)
		fault(f.inFlight > q.maxInFlight(f), "%d items of flow %s are in flight", f.inFlight, f.key)
		t := perTenant[f.tenant]
		t.flows++
		t.ready += f.ready.len()
		if f.index != notInHeap {
			t.listed++
		}
		perTenant[f.tenant] = t
	}
	waiting := 0
	for _, t := range q.tenants {
		is := counts{t.flows, t.ready, t.inFlight, t.seated, t.listed}
		fault(is != perTenant[t] || t.flows == 0, "tenant %s has miscounted: %v, not %v", t.name, is, perTenant[t])
		if t.listed > 0 {
			waiting++
		}
	}
	fault(q.tenantsWaiting != waiting, "%d tenants wait, not %d", waiting, q.tenantsWaiting)
	for _, e := range q.entries {
		if e.held {
			held++
		}
	}
	fault(q.ready != ready+held, "%d entries are ready and %d held, not %d", ready, held, q.ready)
	fault(q.ofLevel != perLevel, "%v are in flight by level, not %v", perLevel, q.ofLevel)
	fault(q.seated != total.seated || q.options.Seats > 0 && q.seated > q.options.Seats,
		"%d have seats, not %d", total.seated, q.seated)
	return found
}
