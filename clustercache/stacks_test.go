//go:build !race

package clustercache

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// A hub has tens of thousands of watches. Each has two goroutines: one that follows it, and one of net/http for its
// stream. While a watch is idle their stacks are small.
func TestStacksOfWatches(t *testing.T) {
	const n, each = 800, 17 << 10 // two stacks of 8 KiB; the runtime keeps some 400 KiB more after the lists
	cp := realCluster(t)
	h := start(t, Options{
		Limits: func(ClusterKey) Limits { return Limits{QPS: -1} },
		Probe:  ProbeOptions{Interval: time.Hour},
	})
	key := h.register("a", cp.Kubeconfig())
	h.expectState(key, StateConnected)
	var synced atomic.Int32
	watchMany(h, key, "warm", 10, &synced)
	stacks := func() int {
		runtime.GC() // each halves what is too large once
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int(m.StackInuse)
	}
	for range 3 {
		stacks()
	}
	before := stacks()
	goroutines := runtime.NumGoroutine()
	watchMany(h, key, "cm", n, &synced)
	h.Eventually(runtime.NumGoroutine).Should(BeNumerically("<", goroutines+2*n+n/10))
	h.Eventually(func() int { return (stacks() - before) / n }).Should(BeNumerically("<=", each), "bytes a watch")
}
