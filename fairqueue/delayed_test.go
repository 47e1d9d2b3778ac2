package fairqueue

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
)

func TestDelayedItemsBecomeReadyInTheOrderTheyAreDue(t *testing.T) {
	g := NewWithT(t)
	q, clock := newTestQueue(t, Options[string]{MaxInFlight: limit(100)})
	q.AddAfter("a/30", 30*time.Second)
	q.AddAfter("a/10", 10*time.Second)
	q.AddAfter("a/20", 20*time.Second)
	g.Expect(q.Len()).To(Equal(0))

	clock.Step(10*time.Second - 1)
	g.Consistently(q.Len, "30ms").Should(Equal(0))
	clock.Step(1)
	g.Eventually(q.Len).Should(Equal(1))
	clock.Step(time.Hour)
	g.Eventually(q.Len).Should(Equal(3))
	g.Expect(take(q)).To(Equal([]string{"a/10", "a/20", "a/30"}))
	g.Expect(clock.Waiters()).To(BeZero())
}

func TestThereIsOneTimer(t *testing.T) {
	g := NewWithT(t)
	q, clock := newTestQueue(t, Options[string]{})
	for i := range 1000 {
		q.AddAfter(fmt.Sprintf("a/%d", i), time.Duration((i*7919)%1000+1)*time.Second)
		g.Expect(clock.Waiters()).To(Equal(1))
	}
	for i := range 1000 {
		clock.Step(time.Second)
		g.Eventually(q.Len).WithPolling(100 * time.Microsecond).Should(Equal(i + 1))
	}
	g.Expect(clock.Waiters()).To(BeZero())
	g.Expect(q.delayed.len()).To(BeZero())
}

func TestTheRateLimiterDecidesUnlessTheDelayIsShorter(t *testing.T) {
	for name, test := range map[string]struct {
		opts     priorityqueue.AddOpts
		expected time.Duration
	}{
		"rate limiter only": {priorityqueue.AddOpts{RateLimited: true}, time.Minute},
		"shorter delay":     {priorityqueue.AddOpts{RateLimited: true, After: time.Second}, time.Second},
		"longer delay":      {priorityqueue.AddOpts{RateLimited: true, After: time.Hour}, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			q, clock := newTestQueue(t, Options[string]{
				RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Minute, time.Hour),
			})
			q.AddWithOpts(test.opts, "a/0")
			clock.Step(test.expected - 1)
			g.Consistently(q.Len, "20ms").Should(Equal(0))
			clock.Step(1)
			g.Eventually(q.Len).Should(Equal(1))
		})
	}
}

func TestADelayedItemThatIsAddedAgainDuringTheWorkWaitsForBoth(t *testing.T) {
	g := NewWithT(t)
	q, clock := newTestQueue(t, Options[string]{})
	q.Add("a/0")
	take(q)
	q.AddAfter("a/0", time.Second)
	clock.Step(time.Second)
	g.Eventually(q.Len).Should(Equal(1))
	g.Expect(take(q)).To(BeEmpty())
	q.Done("a/0")
	g.Expect(take(q)).To(Equal([]string{"a/0"}))
}

func TestShutDownStopsTheTimer(t *testing.T) {
	g := NewWithT(t)
	q, clock := newTestQueue(t, Options[string]{})
	q.AddAfter("a/0", time.Second)
	g.Expect(clock.Waiters()).To(Equal(1))
	q.ShutDown()
	g.Expect(clock.Waiters()).To(BeZero())
}
