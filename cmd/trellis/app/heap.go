package app

import (
	"context"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// heapRoom is how much a small heap may grow before it is collected. Go collects whenever the heap has doubled, which for a
	// hub with a small fleet is after a few hundred objects applied: a fifth of its CPU went there.
	heapRoom = 64 << 20
	// heapGrowth is how much a large heap may grow, in percent. Nearly all of it is what is known of targets and lives long, and
	// what a run needs is small beside it.
	heapGrowth = 50
	// heapLook is how often the heap is looked at.
	heapLook = 10 * time.Second
	// heapCalm is how much may be allocated between two looks of a hub that has nothing to do, for each byte that lives.
	heapCalm = 0.1
	// heapIdle is how much memory such a hub may hold that it does not need, beside a share of what it needs.
	heapIdle = 16 << 20
	// heapPause is how often memory is given back at most.
	heapPause = 3 * time.Minute
)

// heapFigures are those of the runtime, in bytes.
type heapFigures struct {
	live      uint64 // after the last collection
	allocated uint64 // ever
	held      uint64 // what the system has given for the heap, and has not got back
}

func readHeap() heapFigures {
	samples := []metrics.Sample{
		{Name: "/gc/heap/live:bytes"}, {Name: "/gc/heap/allocs:bytes"}, {Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/memory/classes/heap/unused:bytes"}, {Name: "/memory/classes/heap/free:bytes"},
	}
	metrics.Read(samples)
	n := make([]uint64, len(samples))
	for i, s := range samples {
		if s.Value.Kind() == metrics.KindUint64 {
			n[i] = s.Value.Uint64()
		}
	}
	return heapFigures{live: n[0], allocated: n[1], held: n[2] + n[3] + n[4]}
}

// keepHeapRoom sets the pace of garbage collection until ctx ends, and gives memory back that was needed for a while: for the
// first lists after a start, or to apply much. Go gives it back only slowly where little is allocated. An operator who set GOGC
// has decided himself.
func keepHeapRoom(ctx context.Context) error {
	if os.Getenv("GOGC") != "" {
		return nil
	}
	before := debug.SetGCPercent(gcPercent(0))
	defer debug.SetGCPercent(before)
	ticker := time.NewTicker(heapLook)
	defer ticker.Stop()
	collected := collections(ctx)
	var last heapFigures
	var given time.Time
	percent := gcPercent(0)
	for {
		now := readHeap()
		if p := gcPercent(now.live); p != percent {
			percent = p
			debug.SetGCPercent(percent)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-collected: // at a start the heap grows tenfold between two looks
			continue
		case <-ticker.C:
		}
		now = readHeap()
		if givesBack(last, now) && time.Since(given) >= heapPause {
			debug.FreeOSMemory()
			given = time.Now()
			now = readHeap()
		}
		last = now
	}
}

// collections tells of the garbage collections until ctx ends.
func collections(ctx context.Context) <-chan struct{} {
	collected := make(chan struct{}, 1)
	var await func()
	await = func() {
		garbage := new([4]uint64) // too large to be kept in company
		runtime.AddCleanup(garbage, func(struct{}) {
			if ctx.Err() != nil {
				return
			}
			select {
			case collected <- struct{}{}:
			default:
			}
			await()
		}, struct{}{})
	}
	await()
	return collected
}

// gcPercent is the growth of a live heap, in percent, after which it is collected. It goes in steps, since a heap is of another
// size after each collection, and to set it stops the world for a moment.
func gcPercent(live uint64) int {
	const smallest, step = 16 << 20, 25
	return int(max(heapGrowth, heapRoom*100/max(live, smallest)/step*step)) //nolint:gosec // at most 400
}

// givesBack tells of two looks at the heap whether little happened between them, and much is held that is not needed.
func givesBack(last, now heapFigures) bool {
	calm := last.live > 0 && float64(now.allocated-last.allocated) < heapCalm*float64(now.live)
	return calm && now.held > now.live+now.live/4+heapIdle
}
