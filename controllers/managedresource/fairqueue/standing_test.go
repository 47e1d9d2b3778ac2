package fairqueue

import (
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// A fleet in which most targets hang for as long as a call may take, or longer, and have more work all the time: more of them than
// there are workers. Those that are known to be fine hardly wait. If nothing is known, or what is known is outdated, that is so
// once each that hangs has been found out.
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
				clock.Step(tick)
				g.Eventually(func() bool { return overdue(q) }).Should(BeFalse())
			}
			g.Expect(longest).To(BeNumerically("<=", patience))
		})
	}
}

// overdue tells whether there is an item that should have given up its place.
func overdue(q *Queue[string]) bool {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	return q.placed.Len() > 0 && q.options.Clock.Since(flightAt[string](q.placed.Front()).since) >= q.options.Patience
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
