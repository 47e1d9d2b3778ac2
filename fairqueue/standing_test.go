package fairqueue

import (
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// A fleet in which most targets hang for as long as a call may take, or longer, and have more work all the time: more
// of them than there are workers. Those that are known to be fine hardly wait. If nothing is known, or what is known is
// outdated, that is so once each that hangs has been found out. There is no row for targets that were fine, begin to
// hang all at once, and keep each run longer than it takes to find them out. They get all workers, doc.go says so.
func TestThoseThatAreFineHardlyWait(t *testing.T) {
	const places, workers, hanging, fine, patience = 8, 64, 200, 50, 2 * time.Second
	for name, test := range map[string]struct {
		before  bool // all were fine before
		hangFor time.Duration
		from    time.Duration // until when it is found out who hangs
	}{
		"targets that never answered":         {false, 10 * time.Second, 0},
		"targets that keep a run for minutes": {false, 3 * time.Minute, 0},
		"targets that were fine before":       {true, 10 * time.Second, hanging / places * patience},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			var longest time.Duration
			measuring := false
			q, clock := newTestQueue(t, Options[string]{
				Places: places, Workers: workers, Patience: patience, MaxInFlight: limit(4),
				Served: func(item string, wait time.Duration) {
					if measuring && strings.HasPrefix(item, "fine") {
						longest = max(longest, wait)
					}
				},
			})
			var lanes []string
			for i := range fine {
				lanes = append(lanes, fmt.Sprintf("fine-%d/x", i))
			}
			for i := range hanging {
				lanes = append(lanes, fmt.Sprintf("hanging-%d/x", i))
			}
			for _, item := range lanes {
				if test.before || strings.HasPrefix(item, "fine") {
					q.Add(item)
					work(t, q, 1)
				}
			}

			since := map[string]time.Time{} // what hangs
			const tick = 250 * time.Millisecond
			for now := time.Duration(0); now < 4*time.Minute; now += tick {
				measuring = now > test.from
				for item, began := range since {
					if clock.Since(began) >= test.hangFor {
						q.Done(item)
						delete(since, item)
					}
				}
				for _, item := range lanes {
					if _, hangs := since[item]; !hangs && (strings.HasPrefix(item, "hanging") || now%time.Second == 0) {
						q.Add(item)
					}
				}
				for len(since) < workers && available(q) {
					item, _ := q.Get()
					if strings.HasPrefix(item, "hanging") {
						since[item] = clock.Now()
					} else {
						q.Done(item)
					}
				}
				elapse(g, q, clock, tick)
			}
			g.Expect(longest).To(BeNumerically("<=", patience))
		})
	}
}

// overdue tells whether there is an item that should have given up its place.
func overdue(q *Queue[string]) bool {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	late := q.options.Patience
	if q.options.Answers != nil {
		late += q.options.Doubt // it is looked at that often
	}
	for _, f := range q.inFlight {
		if (f.place != nil || f.yielded != nil) && q.options.Clock.Since(f.since) >= late {
			return true
		}
	}
	return false
}

// What is known of lanes that do not exist is little, and of a bounded number of them.
func TestStandingIsRememberedOfLanesThatAreEmpty(t *testing.T) {
	g := NewWithT(t)
	q, clock := newTestQueue(t, Options[string]{Places: 2, Patience: time.Second})
	for i := range remembered + 10 {
		q.Add(fmt.Sprintf("%d/x", i))
		work(t, q, 1)
	}
	g.Expect(q.lanes).To(BeEmpty())
	g.Expect(q.known.Len()).To(Equal(remembered))

	q.Add("hanging/0")
	g.Expect(take(q)).To(HaveLen(1))
	clock.Step(time.Minute)
	q.Done("hanging/0")
	g.Expect(q.lanes).To(BeEmpty())
	addMany(q, "hanging", 3)
	g.Expect(take(q)).To(HaveLen(1), "half of what others get")
	g.Expect(q.measure().slow).To(Equal(1), "and no place")
}

// As long as one item of a lane takes long, others that are done at once prove nothing.
func TestLaneIsSlowWhileOneOfItsItemsTakesLong(t *testing.T) {
	g := NewWithT(t)
	q, clock := newTestQueue(t, Options[string]{Places: 2, Patience: time.Second, MaxInFlight: limit(4)})
	addMany(q, "a", 4)
	g.Expect(take(q)).To(HaveLen(2))
	clock.Step(time.Second)
	g.Eventually(func() int { return q.measure().slow }).Should(Equal(2))
	q.Add("b/0") // a place is free, and the lane may not have more
	g.Expect(take(q)).To(Equal([]string{"b/0"}))
	q.Done("a/0")
	g.Expect(take(q)).To(Equal([]string{"a/2"}))
	q.Done("a/2")
	g.Expect(take(q)).To(Equal([]string{"a/3"}))
	g.Expect(q.lanes["a"].standing).To(Equal(slow))
	q.Done("a/1")
	q.Done("a/3")
	q.Add("a/4")
	g.Expect(take(q)).To(HaveLen(1))
	g.Expect(q.lanes["a"].standing).To(Equal(swift))
}

// Slow lanes wait beside the places, but do not keep all workers: others may turn out to be slow, too.
func TestSlowLanesKeepHalfOfThoseThatMayWait(t *testing.T) {
	g := NewWithT(t)
	q, clock := newTestQueue(t, Options[string]{Places: 2, Workers: 8, Patience: time.Second})
	hang := func() (items []string) {
		for i := range 10 {
			q.Add(fmt.Sprintf("hanging-%d/x", i))
		}
		return take(q)
	}
	for pending := hang(); len(pending) > 0; pending = take(q) {
		clock.Step(time.Minute)
		for _, item := range pending {
			q.Done(item)
		}
	}
	g.Expect(hang()).To(HaveLen(3))
	addMany(q, "new", 1)
	addMany(q, "newer", 1)
	g.Expect(take(q)).To(Equal([]string{"new/0", "newer/0"}), "they have the places")
}

// A lane that was swift and takes long once is not thrown together with those that hang: it gets a place for its next
// item, though the slow ones have taken all that they may. If it takes long again, it is one of them.
func TestLaneThatTakesLongOnceIsNotSlow(t *testing.T) {
	g := NewWithT(t)
	q, clock := newTestQueue(t, Options[string]{Places: 4, Workers: 32, MaxInFlight: limit(2)})
	run := func(item string, takes time.Duration) {
		q.Add(item)
		g.Expect(take(q)).To(Equal([]string{item}))
		clock.Step(takes)
		g.Eventually(func() bool { return overdue(q) }).Should(BeFalse())
		q.Done(item)
	}
	run("fine/0", 0)

	hanging := 0
	for i := range 40 { // those that hang are found out
		q.Add(fmt.Sprintf("hanging-%d/x", i))
		for _, item := range take(q) {
			clock.Step(time.Minute)
			g.Eventually(func() bool { return overdue(q) }).Should(BeFalse())
			q.Done(item)
		}
	}
	for i := range 40 {
		q.Add(fmt.Sprintf("hanging-%d/y", i))
		hanging += len(take(q))
	}
	g.Expect(hanging).To(Equal(14), "half of those that may wait")

	run("fine/1", 3*time.Second)
	run("fine/2", 0)
	run("fine/3", 3*time.Second)
	run("fine/4", 3*time.Second)
	q.Add("fine/5")
	g.Expect(take(q)).To(BeEmpty(), "twice in a row")
	g.Expect(q.lanes["fine"].standing).To(Equal(slow))
	g.Expect(faults(q)).To(BeEmpty())
}

// Several items that take long at the same time are one reason for doubt, not several.
func TestItemsThatTakeLongAtOnceCountOnce(t *testing.T) {
	g := NewWithT(t)
	q, clock := newTestQueue(t, Options[string]{Places: 4, Workers: 32, MaxInFlight: limit(4)})
	q.Add("a/x")
	work(t, q, 1)
	addMany(q, "a", 3)
	g.Expect(take(q)).To(HaveLen(3))
	clock.Step(3 * time.Second)
	g.Eventually(func() int { return q.measure().slow }).Should(Equal(3))
	g.Expect(q.lanes["a"].standing).To(Equal(unknown))
	q.Add("a/3")
	g.Expect(take(q)).To(BeEmpty(), "while they wait, the lane gets half of what others get")
	q.Done("a/0")
	q.Done("a/1")
	g.Expect(take(q)).To(Equal([]string{"a/3"}))
	g.Expect(q.measure().slow).To(Equal(1), "it has a place")
	g.Expect(faults(q)).To(BeEmpty())
}

// However few places there are, lanes that nothing good is known of do not get the last worker.
func TestTheLastWorkersAreKeptForSwiftLanes(t *testing.T) {
	for places, kept := range map[int]int{1: 1, 2: 1, 3: 1, 4: 2, 8: 4} {
		t.Run(fmt.Sprint(places), func(t *testing.T) {
			g := NewWithT(t)
			q, clock := newTestQueue(t, Options[string]{Places: places})
			q.Add("fine/0")
			work(t, q, 1)
			for i := range 10 * places {
				q.Add(fmt.Sprintf("hanging-%d/x", i))
			}
			hanging := 0
			for next := take(q); len(next) > 0; next = take(q) {
				hanging += len(next)
				clock.Step(time.Minute)
				g.Eventually(func() bool { return overdue(q) }).Should(BeFalse())
			}
			g.Expect(hanging).To(Equal(8*places - kept))
			q.Add("fine/1")
			g.Expect(take(q)).To(Equal([]string{"fine/1"}))
		})
	}
}

// Lanes in doubt whose items wait without a place do not count against the places of lanes that nothing is known of.
func TestLanesInDoubtDoNotKeepNewOnesFromAPlace(t *testing.T) {
	g := NewWithT(t)
	q, clock := newTestQueue(t, Options[string]{Places: 4, Workers: 32})
	for _, takes := range []time.Duration{0, 3 * time.Second} {
		for i := range 4 {
			q.Add(fmt.Sprintf("doubtful-%d/x", i))
		}
		items := take(q)
		g.Expect(items).To(HaveLen(4))
		clock.Step(takes)
		g.Eventually(func() bool { return overdue(q) }).Should(BeFalse())
		for _, item := range items {
			if takes == 0 {
				q.Done(item)
			}
		}
	}
	g.Expect(q.busy[unknown]).To(Equal(4))
	q.Add("fine/0")
	work(t, q, 1)
	q.Add("new/0")
	q.Add("fine/1")
	g.Expect(take(q)).To(Equal([]string{"new/0", "fine/1"}))
}

// That a lane with nothing in flight goes first holds between lanes of which different things are known, too.
func TestNewLaneGoesBeforeTheSecondItemOfASwiftOne(t *testing.T) {
	g := NewWithT(t)
	q, _ := newTestQueue(t, Options[string]{Places: 8})
	q.Add("swift/0")
	work(t, q, 1)
	addMany(q, "swift", 2)
	_, _ = q.Get()
	q.Add("new/0")
	g.Expect(take(q)).To(Equal([]string{"new/0", "swift/1"}))
}
