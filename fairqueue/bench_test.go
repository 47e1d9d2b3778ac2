package fairqueue

import (
	"fmt"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
)

// BenchmarkAddGetDone adds an item, hands it out and ends the work on it, one after the other, on a queue that always
// holds 10,000 items.
func BenchmarkAddGetDone(b *testing.B) {
	const backlog = 10_000
	for _, flows := range []int{1, 100, 1000} {
		items := make([]string, backlog)
		flowNames := make(map[string]string, backlog)
		for i := range items {
			items[i] = fmt.Sprintf("%d/%d", i%flows, i)
			flowNames[items[i]] = fmt.Sprint(i % flows)
		}
		for name, newQueue := range implementations(func(item string) string { return flowNames[item] }) {
			b.Run(fmt.Sprintf("flows=%d/%s", flows, name), func(b *testing.B) {
				q := newQueue()
				defer q.ShutDown()
				q.AddWithOpts(priorityqueue.AddOpts{}, items...)
				b.ReportAllocs()
				for b.Loop() {
					item, _, _ := q.GetWithPriority()
					q.Add(item)
					q.Done(item)
				}
			})
		}
	}
}

// BenchmarkParallel has 16 workers that take items and add them again.
func BenchmarkParallel(b *testing.B) {
	for name, newQueue := range implementations(flowOfName) {
		b.Run(name, func(b *testing.B) {
			q := newQueue()
			defer q.ShutDown()
			for i := range 10_000 {
				q.Add(fmt.Sprintf("%d/%d", i%100, i))
			}
			b.ReportAllocs()
			b.ResetTimer()
			var workers sync.WaitGroup
			for range 16 {
				workers.Go(func() {
					for range b.N / 16 {
						item, _ := q.Get()
						q.Add(item)
						q.Done(item)
					}
				})
			}
			workers.Wait()
		})
	}
}

// implementations are the queues to compare.
func implementations(flow func(string) string) map[string]func() priorityqueue.PriorityQueue[string] {
	return map[string]func() priorityqueue.PriorityQueue[string]{
		"fairqueue": func() priorityqueue.PriorityQueue[string] {
			return New("bench", Options[string]{Flow: flow, MaxInFlight: limit(16)})
		},
		"controller-runtime": func() priorityqueue.PriorityQueue[string] {
			return priorityqueue.New("bench", func(o *priorityqueue.Opts[string]) { o.Log = logr.Discard() })
		},
	}
}
