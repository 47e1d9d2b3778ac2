package fairqueue

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// Of a thousand targets a third hangs at once. Runs that meet one of those last until probes have found out, 14 s
// later; from then on a run for such a target ends at once. All targets are reconciled every ten minutes, and objects
// are edited, at an even pace, in those that are well. An edit there must not wait twice as long as before, whether or
// not there is a change at that moment for each target that hangs.
func TestFleetOfWhichAThirdHangsAtOnce(t *testing.T) {
	t.Run("with resyncs that are due", func(t *testing.T) { fleetOfWhichAThirdHangs(t, false) })
	t.Run("with a change for each that hangs", func(t *testing.T) { fleetOfWhichAThirdHangs(t, true) })
}

func fleetOfWhichAThirdHangs(t *testing.T, changes bool) {
	const (
		flows, hanging = 1000, 300
		seats, workers = 16, 800
		tick           = 10 * time.Millisecond
		service        = 5 * tick // of a run for a target that is well
		found          = 14 * time.Second
		phase          = 60 * time.Second
	)
	g := NewWithT(t)
	random := rand.New(rand.NewPCG(1, 2))
	var waits []time.Duration
	q, clock := newTestQueue(t, Options[string]{
		Seats: seats, Workers: workers, MaxInFlight: limit(4), Changes: 100,
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

	began, ends := map[string]time.Time{}, map[string]time.Time{} // of the runs that workers are at
	answered := map[string]func(){}
	hangs := func(item string, since time.Duration) bool { return since >= 0 && strings.HasPrefix(item, "hanging") }
	// run lets time go by. since is when targets began to hang, as seen from the beginning.
	run := func(since time.Duration) (p99 time.Duration, busiest int) {
		waits = nil
		if changes && since >= 0 {
			for i := range hanging {
				q.AddWithOpts(priority(100), name(i)+"/changed")
			}
		}
		for now := time.Duration(0); now < phase; now += tick {
			for item, end := range ends {
				if !clock.Now().Before(end) {
					answered[item]()
					delete(answered, item)
					q.Done(item)
					delete(ends, item)
					delete(began, item)
				}
			}
			for item, end := range ends {
				if end.Sub(began[item]) <= service { // a call in each tick
					answered[item]()
					answered[item] = Call(q.Context(t.Context(), item))
				} else if clock.Since(began[item]) >= q.answers.patience() { // as a timer has it looked at, at some time
					q.listen(q.inFlight[item])
				}
			}
			if random.IntN(100) < 40 { // 40 edits a second
				q.AddWithOpts(priority(50), name(hanging+random.IntN(flows-hanging))+"/edited")
			}
			if random.IntN(100) < 33 { // 20 ManagedResources of each target, every ten minutes
				q.AddWithOpts(priority(-100), fmt.Sprintf("%s/%d", name(random.IntN(flows)), random.IntN(20)))
			}
			for len(ends) < workers && available(q) {
				item, _ := q.Get()
				took := service
				if hangs(item, since) {
					took = max(found-now, 0)
				}
				if took == 0 {
					q.Done(item)
					continue
				}
				began[item], ends[item] = clock.Now(), clock.Now().Add(took)
				answered[item] = Call(q.Context(t.Context(), item))
			}
			busiest = max(busiest, len(ends))
			clock.Step(tick)
		}
		slices.Sort(waits)
		return waits[len(waits)*99/100], busiest
	}

	before, _ := run(-1)
	during, busiest := run(0)
	t.Logf("p99 of the wait: %s before, %s during; at most %d of %d workers busy", before, during, busiest, workers)
	g.Expect(during).To(BeNumerically("<=", max(2*before, tick)))
	g.Expect(busiest).To(BeNumerically("<", workers))
	g.Expect(faults(q)).To(BeEmpty())
}
