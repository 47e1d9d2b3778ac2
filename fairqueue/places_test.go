package fairqueue

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

func TestWorkThatTakesLongGivesUpItsPlace(t *testing.T) {
	g := NewWithT(t)
	q, clock := newTestQueue(t, Options[string]{Places: 2, MaxInFlight: limit(4)})
	addMany(q, "hanging", 10)
	g.Expect(take(q)).To(Equal([]string{"hanging/0", "hanging/1"}))
	addMany(q, "fine", 3)
	g.Expect(take(q)).To(BeEmpty(), "there are two places")

	clock.Step(time.Second)
	g.Expect(available(q)).To(BeFalse())
	clock.Step(time.Second)
	g.Eventually(func() bool { return available(q) }).Should(BeTrue())
	g.Expect(q.measure().slow).To(Equal(2))
	g.Expect(work(t, q, 3)).To(Equal([]string{"fine/0", "fine/1", "fine/2"}), "a lane that takes long gets half of what others get")
	g.Expect(take(q)).To(BeEmpty())

	// The place of a slow one is not given up twice.
	q.Done("hanging/0")
	q.Done("hanging/1")
	g.Expect(q.measure().slow).To(BeZero())
	g.Expect(take(q)).To(Equal([]string{"hanging/2", "hanging/3"}))
	g.Expect(q.measure().slow).To(Equal(2), "they need no place")
	q.Done("hanging/2")
	g.Expect(take(q)).To(Equal([]string{"hanging/4", "hanging/5"}), "and it is trusted again")
	g.Expect(q.measure().slow).To(Equal(1), "and gets places")
}

func TestPlacesAreGivenUpOneAfterTheOther(t *testing.T) {
	g := NewWithT(t)
	q, clock := newTestQueue(t, Options[string]{Places: 3, MaxInFlight: limit(10), Patience: time.Minute})
	for i := range 3 {
		q.Add(fmt.Sprintf("%d/0", i))
		g.Expect(take(q)).To(HaveLen(1))
		clock.Step(10 * time.Second)
	}
	g.Expect(clock.Waiters()).To(Equal(1))
	q.Done("0/0") // the one the timer was set for
	clock.Step(30 * time.Second)
	for slow := range 3 {
		g.Eventually(func() int { return q.measure().slow }).Should(Equal(slow))
		g.Eventually(func() bool { return clock.HasWaiters() == (slow < 2) }).Should(BeTrue())
		clock.Step(10 * time.Second)
	}
}

// More targets hang than there are workers. Those that are fine go on, and soon all places are free for them.
func TestHangingTargetsDoNotKeepThePlaces(t *testing.T) {
	g := NewWithT(t)
	const places, workers, hanging, fine = 8, 64, 200, 50
	var served, hung atomic.Int32
	hang := make(chan struct{})
	var q *Queue[string]
	c, err := controller.NewTypedUnmanaged("places-test", controller.TypedOptions[string]{
		MaxConcurrentReconciles: workers,
		SkipNameValidation:      new(true),
		Logger:                  logr.Discard(),
		NewQueue: func(name string, limiter workqueue.TypedRateLimiter[string]) workqueue.TypedRateLimitingInterface[string] {
			q = New(name, Options[string]{
				Lane: laneOf, RateLimiter: limiter, MaxInFlight: limit(4), Places: places, Workers: workers, Patience: time.Second,
			})
			return q
		},
		Reconciler: reconcile.TypedFunc[string](func(_ context.Context, item string) (reconcile.Result, error) {
			if strings.HasPrefix(item, "hanging") {
				hung.Add(1)
				<-hang
				return reconcile.Result{}, nil
			}
			served.Add(1)
			return reconcile.Result{}, nil
		}),
	})
	g.Expect(err).NotTo(HaveOccurred())
	ready := make(chan struct{})
	g.Expect(c.Watch(source.TypedFunc[string](func(context.Context, workqueue.TypedRateLimitingInterface[string]) error {
		close(ready)
		return nil
	}))).To(Succeed())
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = c.Start(ctx) })
	<-ready
	defer func() {
		cancel()
		close(hang)
		running.Wait()
	}()

	add := func(kind string, lanes, items int) {
		for i := range items {
			for n := range lanes {
				q.Add(fmt.Sprintf("%s-%d/%d", kind, n, i))
			}
		}
	}
	add("fine", fine, 1)
	g.Eventually(served.Load, "20s").Should(BeEquivalentTo(fine))
	add("hanging", hanging, 2)
	g.Eventually(hung.Load, "20s").Should(BeEquivalentTo(workers-places/2), "some workers are kept for those that are known to be fine")
	add("fine", fine, 5)
	g.Eventually(served.Load, "20s").Should(BeEquivalentTo(6*fine), "with all that hang still hanging")
	g.Eventually(func() int { q.mutex.Lock(); defer q.mutex.Unlock(); return q.placed.Len() }, "20s").Should(BeZero())
	g.Expect(hung.Load()).To(BeEquivalentTo(workers - places/2))
}
