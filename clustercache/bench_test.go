package clustercache

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/labels"
)

// The benchmarks measure memory: `go test -run - -bench . -benchtime 1x`. The API server is a real one, in a process of
// its own, so that only the hub's side counts.

// footprint is what is alive after garbage collection.
type footprint struct{ heap, stack, goroutines float64 }

func measure() footprint {
	for range 3 {
		runtime.GC()
	}
	debug.FreeOSMemory()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return footprint{float64(m.HeapAlloc), float64(m.StackInuse), float64(runtime.NumGoroutine())}
}

func (f footprint) report(b *testing.B, before footprint, n int, per string) {
	b.ReportMetric((f.heap-before.heap)/float64(n)/1024, "heapKiB/"+per)
	b.ReportMetric((f.stack-before.stack)/float64(n)/1024, "stackKiB/"+per)
	b.ReportMetric((f.goroutines-before.goroutines)/float64(n), "goroutines/"+per)
	b.ReportMetric(0, "ns/op")
}

// BenchmarkIdleTarget shows what a connected target without watches takes, its REST mapper in use.
func BenchmarkIdleTarget(b *testing.B) {
	const n = 200
	cp := realCluster(b)
	for b.Loop() {
		h := start(b, Options{Probe: ProbeOptions{Interval: time.Hour}})
		h.expectState(h.register("first", cp.Kubeconfig()), StateConnected)
		before := measure()
		began := time.Now()
		var keys []ClusterKey
		for i := range n {
			keys = append(keys, h.register(fmt.Sprint("target-", i), cp.Kubeconfig()))
		}
		for _, key := range keys {
			h.expectState(key, StateConnected)
		}
		b.ReportMetric(float64(time.Since(began).Milliseconds())/n, "ms/target")
		for _, key := range keys { // the REST mapper is used
			mapper, err := h.cache.GetRESTMapper(context.Background(), key)
			h.Expect(err).NotTo(HaveOccurred())
			_, err = mapper.RESTMapping(configMapKind.GroupKind())
			h.Expect(err).NotTo(HaveOccurred())
		}
		measure().report(b, before, n, "target")
		h.Expect(h.cache.mappers.Len()).To(Equal(1))
		h.stop()
	}
}

// BenchmarkWatch shows what a metadata watch takes whose selection is empty.
func BenchmarkWatch(b *testing.B) {
	const n = 500
	cp := realCluster(b)
	for b.Loop() {
		h := start(b, Options{
			Limits: func(ClusterKey) Limits { return Limits{QPS: -1} },
			Probe:  ProbeOptions{Interval: time.Hour},
		})
		key := h.register("a", cp.Kubeconfig())
		h.expectState(key, StateConnected)
		var synced atomic.Int32
		watchMany(h, key, "warm", 10, &synced)
		before := measure()
		watchMany(h, key, "cm", n, &synced)
		measure().report(b, before, n, "watch")
		h.stop()
	}
}

func watchMany(h *hub, key ClusterKey, name string, n int, synced *atomic.Int32) {
	want := synced.Load() + int32(n)
	for i := range n {
		h.watch(key, Watcher{
			Name: fmt.Sprint(name, i), Form: fmt.Sprint(i), Kind: configMapKind, Namespace: "default", MetadataOnly: true,
			LabelSelector: labels.SelectorFromSet(labels.Set{"none": "has-it"}), Handler: countSyncs{synced},
		})
	}
	h.Eventually(synced.Load).Should(Equal(want))
}

// countSyncs is a WatchHandler.
type countSyncs struct{ n *atomic.Int32 }

func (c countSyncs) OnUpdate(ClusterKey, string, namespacedName, any, any) {}
func (c countSyncs) OnDelete(ClusterKey, string, namespacedName, any)      {}
func (c countSyncs) OnSynced(ClusterKey, string)                           { c.n.Add(1) }
func (c countSyncs) OnError(ClusterKey, string, error)                     {}

type namespacedName = ClusterKey
