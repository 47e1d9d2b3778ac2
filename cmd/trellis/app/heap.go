package app

import (
	"context"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// heapRoom is how much a small heap may grow at most before it is collected. Go collects whenever the heap has doubled, which for
	// a hub with a small fleet is after a few hundred objects applied: a fifth of its CPU went there.
	heapRoom = 64 << 20
	// heapGrowth is how much a large heap may grow at most, in percent, while much is allocated. With a thousand targets a collection
	// goes through 0.7 GiB or more, which takes 3.4 s of processor time: at 50 % that was a third of a start, and edits that
	// came meanwhile waited for it. It is given back in calm.
	heapGrowth = 100
	// heapLeast is how much any heap may grow.
	heapLeast = 16 << 20
	// heapPace is after how many seconds a heap is to be collected for each GiB that lives. To go through a GiB takes nearly four
	// seconds of one processor, so that is a twenty-fifth of one. Less often would take memory that a hub at rest is not to have. Where more is allocated, the bounds above decide.
	heapPace = 100
	// heapLook is how often the heap is looked at.
	heapLook = 10 * time.Second
	// heapCalm is how much may be allocated between two looks of a hub that has nothing to do, for each byte that lives. By
	// what was seen of 30 targets, a thousand at rest would take half of that, and to apply much takes twice as much at least.
	heapCalm = 0.2
	// heapIdle is how much memory such a hub may hold that it does not need, beside a share of what it needs.
	heapIdle = 16 << 20
	// heapPause is how often memory is given back at most, which takes a collection. heapAgain is after how long that is tried again
	// if no more is held than was left the last time: that is gaps between what lives, which fill as the hub works.
	heapPause = 3 * time.Minute
	heapAgain = 30 * time.Minute
)

// heapFigures are those of the runtime, in bytes.
type heapFigures struct {
	live      uint64 // after the last collection
	allocated uint64 // ever
	held      uint64 // what the system has given for the heap, and has not got back
	stacks    uint64 // of goroutines: the runtime lets the heap grow by a share of them, too
}

func readHeap() heapFigures {
	samples := []metrics.Sample{
		{Name: "/gc/heap/live:bytes"}, {Name: "/gc/heap/allocs:bytes"}, {Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/memory/classes/heap/unused:bytes"}, {Name: "/memory/classes/heap/free:bytes"}, {Name: "/memory/classes/heap/stacks:bytes"},
	}
	metrics.Read(samples)
	n := make([]uint64, len(samples))
	for i, s := range samples {
		if s.Value.Kind() == metrics.KindUint64 {
			n[i] = s.Value.Uint64()
		}
	}
	return heapFigures{live: n[0], allocated: n[1], held: n[2] + n[3] + n[4], stacks: n[5]}
}

// keepHeapRoom sets the pace of garbage collection until ctx ends, and gives memory back that was needed for a while: for the
// first lists after a start, or to apply much. Go gives it back only slowly where little is allocated. An operator who set GOGC
// has decided himself.
func keepHeapRoom(ctx context.Context) error {
	if os.Getenv("GOGC") != "" {
		return nil
	}
	var p pace
	percent := p.percent(readHeap(), time.Now())
	before := debug.SetGCPercent(percent)
	defer debug.SetGCPercent(before)
	ticker := time.NewTicker(heapLook)
	defer ticker.Stop()
	collected := collections(ctx)
	var last heapFigures
	var spare surplus
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-collected: // at a start the heap grows tenfold between two looks
		case <-ticker.C:
			now := readHeap()
			if spare.givesBack(last, now, time.Now()) {
				debug.FreeOSMemory()
				now = readHeap()
				spare.gaveBack(now, time.Now())
			}
			last = now
		}
		if next := p.percent(readHeap(), time.Now()); next != percent {
			percent = next
			debug.SetGCPercent(percent)
		}
	}
}

// pace tells how much a heap may grow before it is collected. The zero value knows of nothing yet.
type pace struct {
	at        time.Time // of the last look
	allocated uint64    // then
	rate      float64   // of what is allocated, in bytes a second
	last      int       // what was told then
}

// percent is the growth, in percent of what the runtime reckons with. It goes in steps, since to set it stops the world for a
// moment. A hub that gets work is paced by that at once, and one that has done it little by little.
func (p *pace) percent(now heapFigures, at time.Time) int {
	const smallest, step = 16 << 20, 10
	if at.Sub(p.at) < time.Second {
		return p.last // several collections a second say nothing of the rate each
	}
	most := max(heapRoom, float64(now.live)*heapGrowth/100)
	growth := most
	if !p.at.IsZero() {
		seconds := at.Sub(p.at).Seconds()
		p.rate = max(float64(now.allocated-p.allocated)/seconds, p.rate*math.Exp2(-seconds/heapLook.Seconds()))
		growth = min(max(p.rate*heapPace*float64(now.live)/(1<<30), heapLeast), most)
	}
	p.at, p.allocated = at, now.allocated
	p.last = max(int(100*growth/float64(max(now.live+now.stacks, smallest)))/step*step, step)
	return p.last
}

// surplus tells when there is memory to be given back. The zero value has given none back yet.
type surplus struct {
	at   time.Time // when that was done last
	left uint64    // what was held after it
}

// givesBack tells of two looks at the heap whether little happened between them, and much is held that is not needed.
func (s *surplus) givesBack(last, now heapFigures, at time.Time) bool {
	if since := at.Sub(s.at); !s.at.IsZero() && since < heapPause {
		return false
	} else if since >= heapAgain {
		s.left = 0
	}
	calm := last.live > 0 && float64(now.allocated-last.allocated) < heapCalm*float64(now.live)
	return calm && now.held > max(now.live, s.left)+now.live/8+heapIdle
}

// gaveBack notes what is held after memory was given back.
func (s *surplus) gaveBack(now heapFigures, at time.Time) { s.at, s.left = at, now.held }

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
