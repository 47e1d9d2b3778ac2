package app

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// heapRoom is how much a small heap may grow before it is collected. Go collects whenever the heap has doubled, which for a
// hub with a small fleet is after a few hundred objects applied: a fifth of its CPU went there. A heap larger than this is
// collected as always, so a large fleet costs no more memory.
const heapRoom = 64 << 20

// heapLook is how often the heap is looked at.
const heapLook = 10 * time.Second

const liveHeap = "/gc/heap/live:bytes"

// keepHeapRoom sets the pace of garbage collection until ctx ends. An operator who set GOGC has decided himself.
func keepHeapRoom(ctx context.Context) error {
	if os.Getenv("GOGC") != "" {
		return nil
	}
	before := debug.SetGCPercent(gcPercent(0))
	defer debug.SetGCPercent(before)
	ticker := time.NewTicker(heapLook)
	defer ticker.Stop()
	for {
		sample := []metrics.Sample{{Name: liveHeap}}
		metrics.Read(sample)
		if sample[0].Value.Kind() == metrics.KindUint64 {
			debug.SetGCPercent(gcPercent(sample[0].Value.Uint64()))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// gcPercent is the growth of a live heap, in percent, after which it is collected.
func gcPercent(live uint64) int {
	const least, smallest = 100, 16 << 20
	return int(max(least, heapRoom*100/max(live, smallest))) //nolint:gosec // at most 400
}
