package fairqueue

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// A real controller of controller-runtime works off the queue: with retries, requeues, and workers that hang.
func TestAControllerRunsOnTheQueue(t *testing.T) {
	g := NewWithT(t)
	var mutex sync.Mutex
	calls := map[string]int{}
	hang := make(chan struct{})

	var q *Queue[string]
	c, err := controller.NewTypedUnmanaged("fairqueue-test", controller.TypedOptions[string]{
		MaxConcurrentReconciles: 4,
		SkipNameValidation:      new(true),
		Logger:                  logr.Discard(),
		NewQueue: func(name string, limiter workqueue.TypedRateLimiter[string]) workqueue.TypedRateLimitingInterface[string] {
			q = New(name, Options[string]{Flow: flowOfName, RateLimiter: limiter})
			return q
		},
		Reconciler: reconcile.TypedFunc[string](func(_ context.Context, item string) (reconcile.Result, error) {
			mutex.Lock()
			calls[item]++
			count := calls[item]
			mutex.Unlock()
			switch {
			case flowOfName(item) == "hanging":
				<-hang
			case item == "fine/fails-twice" && count <= 2:
				return reconcile.Result{}, errors.New("not yet")
			case item == "fine/comes-back" && count <= 3:
				return reconcile.Result{RequeueAfter: time.Millisecond}, nil
			}
			return reconcile.Result{}, nil
		}),
	})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(c.Watch(source.TypedFunc[string](func(_ context.Context, queue workqueue.TypedRateLimitingInterface[string]) error {
		for _, item := range []string{"hanging/0", "hanging/1", "hanging/2", "hanging/3", "fine/once", "fine/fails-twice", "fine/comes-back"} {
			queue.Add(item)
		}
		return nil
	}))).To(Succeed())

	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan error, 1)
	go func() { stopped <- c.Start(ctx) }()

	g.Eventually(func() map[string]int {
		mutex.Lock()
		defer mutex.Unlock()
		counts := map[string]int{}
		for item, count := range calls {
			if flow := flowOfName(item); flow != "fine" {
				item = flow
			}
			counts[item] += count
		}
		return counts
	}).Should(Equal(map[string]int{"fine/once": 1, "fine/fails-twice": 3, "fine/comes-back": 4, "hanging": 2})) // that is the cap

	cancel()
	close(hang)
	g.Eventually(stopped).Should(Receive(BeNil()))
	g.Expect(q.ShuttingDown()).To(BeTrue())
}
