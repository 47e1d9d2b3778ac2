package fairqueue

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"go.uber.org/goleak"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
)

// Many goroutines do everything at once. No item may be worked on twice at a time, no lane may exceed its cap, and the
// last addition of every item must be followed by work on it. There are few items, so that many are added while they
// are worked on.
func TestManyProducersAndConsumers(t *testing.T) {
	g := NewWithT(t)
	const lanes, perLane, producers, consumers, additions = 20, 3, 8, 16, 3000
	q := New("test", Options[string]{
		Lane: laneOf, Tenant: func(item string) string { return item[:1] }, MaxInFlight: limit(2),
		Places: 8, Patience: 100 * time.Microsecond, Doubt: 10 * time.Microsecond,
		Answers: func(_ string, settled func()) bool {
			if rand.IntN(2) == 0 {
				return true
			}
			time.AfterFunc(time.Duration(rand.IntN(100))*time.Microsecond, settled)
			return false
		}})

	var worked [lanes * perLane]struct{ added, seen, busy atomic.Int64 }
	var busyLanes [lanes]atomic.Int64
	item := func(i int) string { return fmt.Sprintf("%d/%d", i%lanes, i) }
	index := func(item string) (i int) {
		_, err := fmt.Sscanf(item[len(laneOf(item))+1:], "%d", &i)
		if err != nil {
			panic(err)
		}
		return i
	}

	var consuming, producing sync.WaitGroup
	for range consumers {
		consuming.Go(func() {
			for {
				next, shutdown := q.Get()
				if shutdown {
					return
				}
				i := index(next)
				added := worked[i].added.Load()
				if worked[i].busy.Add(1) != 1 {
					t.Error("an item is worked on twice at a time")
				}
				if busyLanes[i%lanes].Add(1) > 2 {
					t.Error("a lane exceeds its cap")
				}
				if rand.IntN(10) == 0 {
					time.Sleep(50 * time.Microsecond)
				}
				worked[i].busy.Add(-1)
				busyLanes[i%lanes].Add(-1)
				worked[i].seen.Store(added)
				q.Done(next)
				if found := faults(q); len(found) > 0 {
					t.Error(found)
				}
			}
		})
	}
	for range producers {
		producing.Go(func() {
			for range additions {
				i := rand.IntN(lanes * perLane)
				worked[i].added.Add(1)
				switch rand.IntN(5) {
				case 0:
					q.AddAfter(item(i), time.Duration(rand.IntN(1000))*time.Microsecond)
				case 1:
					q.AddWithOpts(priority(rand.IntN(10)-3), item(i))
				case 2:
					q.AddRateLimited(item(i))
					q.Forget(item(i))
				default:
					q.Add(item(i))
				}
			}
		})
	}
	producing.Wait()
	g.Eventually(func() int {
		missed := 0
		for i := range worked {
			if worked[i].added.Load() != worked[i].seen.Load() {
				missed++
			}
		}
		return missed
	}, "20s").Should(BeZero(), "everything that was added is worked on")

	q.ShutDown()
	consuming.Wait()
	g.Expect(q.lanes).To(BeEmpty())
	g.Expect(q.entries).To(BeEmpty())
	g.Expect(q.ready).To(BeZero())
	g.Expect(faults(q)).To(BeEmpty())
}

// Whatever comes in whatever order, what the queue knows fits together.
func TestRandomSequences(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			g := NewWithT(t)
			random := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // it shall be the same each time
			moved := false                           // whether items are in other lanes than before
			var settle []func()
			answering := map[string]bool{}
			var tenant func(string) string
			if seed%2 == 0 {
				tenant = func(item string) string { return fmt.Sprint(item[0] % 3) }
			}
			q, clock := newTestQueue(t, Options[string]{
				Tenant: tenant, Places: 4, Workers: 12, MaxInFlight: limit(3), Answers: func(item string, settled func()) bool {
					if answering[laneOf(item)] {
						return true
					}
					settle = append(settle, settled)
					return false
				}, Lane: func(item string) string {
					if moved {
						return "moved-" + item[len(item)-1:]
					}
					return laneOf(item)
				},
			})
			var working []string
			for step := range 500 {
				switch random.IntN(9) {
				case 0, 1, 2:
					q.AddWithOpts(priority(random.IntN(4)-1), fmt.Sprintf("%d/%d", random.IntN(8), random.IntN(4)))
				case 3, 4:
					if len(working) < q.options.Workers && available(q) {
						item, _ := q.Get()
						working = append(working, item)
					}
				case 5, 6:
					if len(working) > 0 {
						i := random.IntN(len(working))
						q.Done(working[i])
						working = append(working[:i], working[i+1:]...)
					}
				case 7:
					moved = random.IntN(10) == 0
					elapse(g, q, clock, time.Duration(random.IntN(1500))*time.Millisecond)
				case 8:
					q.mutex.Lock() // answers are asked for with it locked
					settled := settle
					settle = nil
					for lane := range 8 {
						answering[fmt.Sprint(lane)] = random.IntN(2) == 0
					}
					q.mutex.Unlock()
					for _, f := range settled {
						f()
					}
				}
				g.Expect(faults(q)).To(BeEmpty(), "after %d steps", step)
			}
		})
	}
}

func TestNothingRunsAfterShutDown(t *testing.T) {
	ignore := goleak.IgnoreCurrent()
	q := New("test", Options[string]{Lane: laneOf})
	goleak.VerifyNone(t, ignore) // Nor before.

	var consumers sync.WaitGroup
	for range 10 {
		consumers.Go(func() {
			for {
				item, shutdown := q.Get()
				if shutdown {
					return
				}
				q.Done(item)
			}
		})
	}
	for i := range 1000 {
		q.AddAfter(fmt.Sprintf("%d/%d", i%10, i), time.Duration(i)*time.Millisecond)
		q.AddWithOpts(priorityqueue.AddOpts{RateLimited: true}, fmt.Sprint(i))
	}
	q.ShutDown()
	consumers.Wait()
	goleak.VerifyNone(t, ignore)
}
