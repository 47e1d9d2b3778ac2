package fairqueue

import (
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
)

// newTestQueue returns a queue of items "lane/name" with a fake clock. It is shut down when the test ends.
func newTestQueue(t testing.TB, options Options[string]) (*Queue[string], *clocktesting.FakeClock) {
	clock := clocktesting.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	options.Clock = clock
	if options.Lane == nil {
		options.Lane = laneOf
	}
	q := New("test", options)
	t.Cleanup(q.ShutDown)
	return q, clock
}

// laneOf returns what is before the slash.
func laneOf(item string) string {
	lane, _, _ := strings.Cut(item, "/")
	return lane
}

// limit is a MaxInFlight that is the same for every lane.
func limit(n int) func(string) int {
	return func(string) int { return n }
}

// priority returns options for a priority.
func priority(p int) priorityqueue.AddOpts {
	return priorityqueue.AddOpts{Priority: &p}
}

// available reports whether Get would return at once.
func available(q *Queue[string]) bool {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	return q.nextLane() != nil
}

// take hands out everything that can be handed out, in order.
func take(q *Queue[string]) []string {
	var items []string
	for available(q) {
		item, _ := q.Get()
		items = append(items, item)
	}
	return items
}

// work hands out n items one after the other, each Done before the next.
func work(t testing.TB, q *Queue[string], n int) []string {
	t.Helper()
	var items []string
	for range n {
		NewWithT(t).Expect(available(q)).To(BeTrue(), "after %v", items)
		item, _ := q.Get()
		items = append(items, item)
		q.Done(item)
	}
	return items
}

// addMany adds the items "lane/0", "lane/1", ...
func addMany(q *Queue[string], lane string, n int) {
	for i := range n {
		q.Add(fmt.Sprintf("%s/%d", lane, i))
	}
}
