//go:build !race

package clustercache

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// A hub has tens of thousands of watches, each of which is a goroutine that waits. Its stack is four kilobytes if less than two are in use
// while it waits, and else eight: that is the difference of a function more, or of one with a large frame. The race
// detector makes all frames larger, so there is no such test under it.
func TestStacksOfWatches(t *testing.T) {
	const n, each = 300, 5 << 10
	cp := realCluster(t)
	h := start(t, Options{ProbeInterval: time.Hour, Limits: func(ClusterKey) Limits { return Limits{QPS: -1} }})
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
	watchMany(h, key, "cm", n, &synced)
	h.Eventually(func() int { return (stacks() - before) / n }).Should(BeNumerically("<=", each), "bytes a watch")
}
