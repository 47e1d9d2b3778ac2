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

// Many goroutines do everything at once. No item may be worked on twice at a time, no flow may exceed its cap, and the
// last addition of every item must be followed by work on it. There are few items, so that many are added while they
// are worked on.
func TestManyProducersAndConsumers(t *testing.T) {
	g := NewWithT(t)
	const flows, perFlow, producers, consumers, additions = 20, 3, 8, 16, 3000
	q := New("test", Options[string]{
		Flow: flowOfName, Tenant: func(item string) string { return item[:1] }, MaxInFlight: limit(2),
		Seats: 8, Workers: consumers})

	var worked [flows * perFlow]struct{ added, seen, busy atomic.Int64 }
	var busyFlows [flows]atomic.Int64
	item := func(i int) string { return fmt.Sprintf("%d/%d", i%flows, i) }
	index := func(item string) (i int) {
		_, err := fmt.Sscanf(item[len(flowOfName(item))+1:], "%d", &i)
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
				if busyFlows[i%flows].Add(1) > 2 {
					t.Error("a flow exceeds its cap")
				}
				if rand.IntN(2) == 0 {
					Yield(q.Context(t.Context(), next))
				}
				if rand.IntN(10) == 0 {
					time.Sleep(50 * time.Microsecond)
				}
				worked[i].busy.Add(-1)
				busyFlows[i%flows].Add(-1)
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
				i := rand.IntN(flows * perFlow)
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
	g.Expect(q.flows).To(BeEmpty())
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
			moved := false                           // whether items are in other flows than before
			var tenant func(string) string
			if seed%2 == 0 {
				tenant = func(item string) string { return fmt.Sprint(item[0] % 3) }
			}
			q, clock := newTestQueue(t, Options[string]{
				Tenant: tenant, Seats: 4, Workers: 12, MaxInFlight: limit(3), Flow: func(item string) string {
					if moved {
						return "moved-" + item[len(item)-1:]
					}
					return flowOfName(item)
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
					clock.Step(time.Duration(random.IntN(1500)) * time.Millisecond)
				case 8:
					if len(working) > 0 {
						Yield(q.Context(t.Context(), working[random.IntN(len(working))]))
					}
				}
				g.Expect(faults(q)).To(BeEmpty(), "after %d steps", step)
			}
		})
	}
}

func TestNothingRunsAfterShutDown(t *testing.T) {
	ignore := goleak.IgnoreCurrent()
	q := New("test", Options[string]{Flow: flowOfName})
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
