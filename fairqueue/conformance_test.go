package fairqueue

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
)

// testBoth runs a test against this package's queue, with one flow for all, and against the one of controller-runtime:
// what holds there must hold here.
func testBoth(t *testing.T, name string, test func(g Gomega, q priorityqueue.PriorityQueue[string])) {
	for implementation, q := range map[string]priorityqueue.PriorityQueue[string]{
		"fairqueue":          New("test", Options[string]{MaxInFlight: limit(100)}),
		"controller-runtime": priorityqueue.New[string]("test"),
	} {
		t.Run(name+"/"+implementation, func(t *testing.T) {
			done := make(chan struct{})
			go func() {
				defer close(done)
				test(NewWithT(t), q)
			}()
			select {
			case <-done:
			case <-time.After(time.Minute):
				t.Fatal("the queue hangs")
			}
			if !q.ShuttingDown() {
				q.ShutDown()
			}
		})
	}
}

// get returns the next item and its priority.
func get(g Gomega, q priorityqueue.PriorityQueue[string]) (string, int) {
	item, priority, shutdown := q.GetWithPriority()
	g.Expect(shutdown).To(BeFalse())
	return item, priority
}

func TestQueueKeepsTheRulesOfPriorityQueue(t *testing.T) {
	testBoth(t, "first in, first out", func(g Gomega, q priorityqueue.PriorityQueue[string]) {
		q.AddWithOpts(priorityqueue.AddOpts{}, "a", "b")
		q.Add("c")
		for _, expected := range []string{"a", "b", "c"} {
			item, priority := get(g, q)
			g.Expect(item).To(Equal(expected))
			g.Expect(priority).To(Equal(0))
		}
	})
	testBoth(t, "highest priority first", func(g Gomega, q priorityqueue.PriorityQueue[string]) {
		q.AddWithOpts(priority(-1), "low")
		q.AddWithOpts(priority(0), "middle")
		q.AddWithOpts(priority(5), "high")
		for _, expected := range []string{"high", "middle", "low"} {
			item, _ := get(g, q)
			g.Expect(item).To(Equal(expected))
		}
	})
	testBoth(t, "an item is in the queue once", func(g Gomega, q priorityqueue.PriorityQueue[string]) {
		q.AddWithOpts(priorityqueue.AddOpts{}, "a", "a")
		q.Add("a")
		g.Expect(q.Len()).To(Equal(1))
	})
	testBoth(t, "adding again raises the priority, behind those that have it", func(g Gomega, q priorityqueue.PriorityQueue[string]) {
		q.Add("a")
		q.AddWithOpts(priority(1), "b")
		q.AddWithOpts(priority(1), "a")
		item, priority := get(g, q)
		g.Expect([]any{item, priority}).To(Equal([]any{"b", 1}))
		item, priority = get(g, q)
		g.Expect([]any{item, priority}).To(Equal([]any{"a", 1}))
	})
	testBoth(t, "adding again never lowers the priority nor changes the turn", func(g Gomega, q priorityqueue.PriorityQueue[string]) {
		q.AddWithOpts(priority(1), "a", "b")
		q.AddWithOpts(priority(0), "a")
		q.AddWithOpts(priority(1), "a")
		item, priority := get(g, q)
		g.Expect([]any{item, priority}).To(Equal([]any{"a", 1}))
	})
	testBoth(t, "adding with a delay does not delay what is ready", func(g Gomega, q priorityqueue.PriorityQueue[string]) {
		q.Add("a")
		q.AddAfter("a", time.Hour)
		g.Expect(q.Len()).To(Equal(1))
		item, _ := get(g, q)
		g.Expect(item).To(Equal("a"))
	})
	testBoth(t, "adding without a delay makes ready what is delayed", func(g Gomega, q priorityqueue.PriorityQueue[string]) {
		q.AddWithOpts(priorityqueue.AddOpts{After: time.Hour, Priority: priority(3).Priority}, "a")
		g.Expect(q.Len()).To(Equal(0))
		q.Add("a")
		g.Expect(q.Len()).To(Equal(1))
		item, priority := get(g, q)
		g.Expect([]any{item, priority}).To(Equal([]any{"a", 3}))
	})
	testBoth(t, "the shorter delay wins", func(g Gomega, q priorityqueue.PriorityQueue[string]) {
		q.AddAfter("a", time.Hour)
		q.AddAfter("a", 10*time.Millisecond)
		q.AddAfter("a", time.Hour)
		item, _ := get(g, q)
		g.Expect(item).To(Equal("a"))
	})
	testBoth(t, "an item being worked on is handed out again after Done only", func(g Gomega, q priorityqueue.PriorityQueue[string]) {
		q.Add("a")
		get(g, q)
		q.AddWithOpts(priority(9), "a")
		q.Add("b")
		g.Expect(q.Len()).To(Equal(2))
		item, _ := get(g, q)
		g.Expect(item).To(Equal("b"))
		q.Done("a")
		item, priority := get(g, q)
		g.Expect([]any{item, priority}).To(Equal([]any{"a", 9}))
	})
	testBoth(t, "an item that was not added meanwhile is gone after Done", func(g Gomega, q priorityqueue.PriorityQueue[string]) {
		q.Add("a")
		get(g, q)
		q.Done("a")
		g.Expect(q.Len()).To(Equal(0))
	})
	testBoth(t, "the rate limiter counts until it forgets", func(g Gomega, q priorityqueue.PriorityQueue[string]) {
		q.AddRateLimited("a")
		q.AddRateLimited("a")
		item, _ := get(g, q) // The items of controller-runtime's queue are counted on arrival.
		g.Expect(item).To(Equal("a"))
		g.Expect(q.NumRequeues("a")).To(Equal(2))
		q.Forget("a")
		g.Expect(q.NumRequeues("a")).To(Equal(0))
	})
	testBoth(t, "a waiting Get gets what is added", func(g Gomega, q priorityqueue.PriorityQueue[string]) {
		got := make(chan string)
		go func() {
			item, _ := q.Get()
			got <- item
		}()
		time.Sleep(10 * time.Millisecond)
		q.Add("a")
		g.Eventually(got).Should(Receive(Equal("a")))
	})
	testBoth(t, "shutting down ends every Get, and nothing is added any longer",
		func(g Gomega, q priorityqueue.PriorityQueue[string]) {
			ended := make(chan bool, 3)
			for range 3 {
				go func() {
					_, shutdown := q.Get()
					ended <- shutdown
				}()
			}
			time.Sleep(10 * time.Millisecond)
			g.Expect(q.ShuttingDown()).To(BeFalse())
			q.ShutDown()
			for range 3 {
				g.Eventually(ended).Should(Receive(BeTrue()))
			}
			g.Expect(q.ShuttingDown()).To(BeTrue())
			q.Add("a")
			g.Expect(q.Len()).To(Equal(0))
			_, shutdown := q.Get()
			g.Expect(shutdown).To(BeTrue())
			q.Done("a")
		})
	testBoth(t, "shutting down leaves what is waiting", func(g Gomega, q priorityqueue.PriorityQueue[string]) {
		q.AddWithOpts(priorityqueue.AddOpts{}, "a", "b")
		q.ShutDown()
		_, _, shutdown := q.GetWithPriority()
		g.Expect(shutdown).To(BeTrue())
	})
}

func TestDoneOfWhatWasNotHandedOutIsNothing(t *testing.T) {
	g := NewWithT(t)
	q, _ := newTestQueue(t, Options[string]{})
	q.Add("a/1")
	q.Done("a/1")
	q.Done("b/1")
	g.Expect(take(q)).To(Equal([]string{"a/1"}))
}

func TestShutDownWithDrainWaitsForWorkInFlight(t *testing.T) {
	g := NewWithT(t)
	q, _ := newTestQueue(t, Options[string]{})
	q.Add("a/1")
	q.Add("a/2")
	q.Add("a/3")
	g.Expect(take(q)).To(HaveLen(2))

	drained := make(chan struct{})
	go func() {
		q.ShutDownWithDrain()
		close(drained)
	}()
	g.Eventually(q.ShuttingDown).Should(BeTrue())
	q.Done("a/1")
	g.Consistently(drained, "50ms").ShouldNot(BeClosed())
	q.Done("a/2")
	g.Eventually(drained).Should(BeClosed())
	q.ShutDown() // Twice is fine.
}
