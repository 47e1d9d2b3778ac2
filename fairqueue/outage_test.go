package fairqueue

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	clocktesting "k8s.io/utils/clock/testing"
)

// Of a thousand targets that were all fine, a third hangs at once. Runs that meet one of those last until probes have
// found out, 14 s later; from then on a run for such a target ends at once. All targets are looked at every ten
// minutes, and objects are edited, at an even pace, in those that are well. Who is edited there must not wait twice as
// long as before, and soon nearly all workers are free again.
//
// If there is a change at that moment for each that hangs, that takes that targets are asked before workers are spent
// on them: there are more of them than workers.
func TestFleetOfWhichAThirdHangsAtOnce(t *testing.T) {
	t.Run("with looks that are due", func(t *testing.T) { fleetOfWhichAThirdHangs(t, false) })
	t.Run("with a change for each that hangs", func(t *testing.T) { fleetOfWhichAThirdHangs(t, true) })
}

func fleetOfWhichAThirdHangs(t *testing.T, changes bool) {
	const (
		lanes, hanging = 1000, 300
		places, many   = 16, 128
		tick           = 10 * time.Millisecond
		service        = 50 * time.Millisecond // of a run for a target that is well
		found          = 14 * time.Second
		phase          = 60 * time.Second
	)
	g := NewWithT(t)
	random := rand.New(rand.NewPCG(1, 2))
	var waits []time.Duration
	var silent []func()
	asked, answered := map[string]func(){}, map[string]time.Time{} // of targets that are well
	var clock *clocktesting.FakeClock
	q, clock := newTestQueue(t, Options[string]{
		Places: places, Workers: many, MaxInFlight: limit(4), Changes: 100,
		Answers: func(item string, settled func()) bool {
			switch lane := laneOf(item); {
			case strings.HasPrefix(lane, "hanging"):
				silent = append(silent, settled)
			case clock.Since(answered[lane]) < 200*time.Millisecond:
				return true
			default:
				asked[lane] = settled
			}
			return false
		},
		Served: func(item string, wait time.Duration) {
			if strings.HasSuffix(item, "/edited") {
				waits = append(waits, wait)
			}
		},
	})
	name := func(i int) string {
		if i < hanging {
			return fmt.Sprintf("hanging-%d", i)
		}
		return fmt.Sprintf("fine-%d", i)
	}

	ends := map[string]time.Time{} // of the runs that workers are at
	hangs := func(item string, since time.Duration) bool { return since >= 0 && strings.HasPrefix(item, "hanging") }
	// run lets time go by. since is when targets began to hang, as seen from the beginning.
	run := func(since time.Duration, free func(busy int, at time.Duration)) time.Duration {
		waits = nil
		if changes && since >= 0 {
			for i := range hanging {
				q.AddWithOpts(priority(100), name(i)+"/changed")
			}
		}
		for now := time.Duration(0); now < phase; now += tick {
			for item, end := range ends {
				if !clock.Now().Before(end) {
					q.Done(item)
					delete(ends, item)
				}
			}
			q.mutex.Lock() // they are asked with it locked
			var settled []func()
			for lane, f := range asked {
				settled, answered[lane] = append(settled, f), clock.Now()
			}
			clear(asked)
			if now >= found {
				settled, silent = append(settled, silent...), nil
			}
			q.mutex.Unlock()
			for _, f := range settled {
				f()
			}
			if random.IntN(100) < 40 { // 40 edits a second
				q.AddWithOpts(priority(50), name(hanging+random.IntN(lanes-hanging))+"/edited")
			}
			if random.IntN(100) < 33 { // 20 ManagedResources of each target, every ten minutes
				q.AddWithOpts(priority(-100), fmt.Sprintf("%s/%d", name(random.IntN(lanes)), random.IntN(20)))
			}
			for len(ends) < many && available(q) {
				item, _ := q.Get()
				took := service
				if hangs(item, since) {
					took = max(found-now, 0)
				}
				if took == 0 {
					q.Done(item)
					continue
				}
				ends[item] = clock.Now().Add(took)
			}
			if free != nil {
				free(len(ends), now)
			}
			elapse(g, q, clock, tick)
		}
		slices.Sort(waits)
		return waits[len(waits)*99/100]
	}

	for i := range lanes { // all have proved to be fine
		q.Add(name(i) + "/first")
		work(t, q, 1)
	}
	before := run(-1, nil)
	busiest := 0
	during := run(0, func(busy int, at time.Duration) {
		if at >= 15*time.Second {
			busiest = max(busiest, busy)
		}
	})
	t.Logf("p99 of the wait: %s before, %s during; at most %d of %d workers busy after 15 s", before, during, busiest, many)
	g.Expect(during).To(BeNumerically("<=", max(2*before, tick)))
	g.Expect(busiest).To(BeNumerically("<=", many/5))
}
