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
	g.Consistently(func() bool { return available(q) }, "30ms").Should(BeFalse())
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
	q.Done("hanging/2")
	g.Expect(take(q)).To(Equal([]string{"hanging/4"}), "and it is trusted again")
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

// Three targets of ten hang, and have more work than there are places. The others hardly notice, and soon most places are
// free again.
func TestHangingTargetsDoNotKeepThePlaces(t *testing.T) {
	g := NewWithT(t)
	const places, targets, hanging, items = 10, 40, 12, 5
	var served, hung atomic.Int32
	hang := make(chan struct{})
	var q *Queue[string]
	c, err := controller.NewTypedUnmanaged("places-test", controller.TypedOptions[string]{
		MaxConcurrentReconciles: 8 * places,
		SkipNameValidation:      new(true),
		Logger:                  logr.Discard(),
		NewQueue: func(name string, limiter workqueue.TypedRateLimiter[string]) workqueue.TypedRateLimitingInterface[string] {
			q = New(name, Options[string]{Lane: laneOf, RateLimiter: limiter, MaxInFlight: limit(4), Places: places, Patience: 100 * time.Millisecond})
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
	g.Expect(c.Watch(source.TypedFunc[string](func(_ context.Context, queue workqueue.TypedRateLimitingInterface[string]) error {
		for i := range items {
			for n := range targets {
				kind := "fine"
				if n < hanging {
					kind = "hanging"
				}
				queue.Add(fmt.Sprintf("%s-%d/%d", kind, n, i))
			}
		}
		return nil
	}))).To(Succeed())
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = c.Start(ctx) })

	g.Eventually(served.Load, "20s").Should(BeEquivalentTo((targets-hanging)*items), "with all that hang still hanging")
	g.Eventually(func() int { q.mutex.Lock(); defer q.mutex.Unlock(); return q.placed.Len() }, "20s").Should(BeNumerically("<=", places/5))
	g.Expect(hung.Load()).To(BeNumerically("<=", 4*hanging))
	cancel()
	close(hang)
	running.Wait()
}
