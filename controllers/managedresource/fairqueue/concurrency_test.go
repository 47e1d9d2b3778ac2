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
// last addition of every item must be followed by work on it.
func TestManyProducersAndConsumers(t *testing.T) {
	g := NewWithT(t)
	const lanes, perLane, producers, consumers, additions = 20, 20, 8, 16, 3000
	q := New("test", Options[string]{Lane: laneOf, MaxInFlight: limit(2), Places: 8, Patience: 100 * time.Microsecond})

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
					q.AddWithOpts(priority(rand.IntN(10)), item(i))
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
