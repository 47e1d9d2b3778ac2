package app

import (
	"context"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"time"
)

const (
	// heapRoom is how much a small heap may grow at most before it is collected. Go collects whenever the heap has doubled, which for
	// a hub with a small fleet is after a few hundred objects applied: a fifth of its CPU went there.
	heapRoom = 64 << 20
	// heapRoomLeast is how much one may grow of which nothing lives. What lives comes on top, up to the room above. All that a small
	// heap ever had room for stays with it: what then lives is spread over it. With 64 MiB from the start, a hub with five targets had
	// 9 MiB that lived in 30.
	heapRoomLeast = 16 << 20
	// heapGrowth is how much a large heap may grow at most, in percent. With a thousand targets a collection goes through 0.7 GiB or
	// more, which takes 3.4 s of processor time: at 50 % that was a third of a start, and edits that came meanwhile waited for it. At
	// 100 % a start took 1.6 times the memory of a minute later.
	heapGrowth = 80
	// heapLeast is how much any heap may grow. A hub with a handful of targets has 8 MiB that live, and goes through them in a few ms.
	heapLeast = 2 << 20
	// heapPace is after how many seconds a heap is to be collected for each GiB that lives. To go through a GiB takes nearly four
	// seconds of one processor, so that is a fortieth of one. Where more is allocated, the bounds above decide.
	heapPace = 150
	// heapRest is how much a heap may grow at least before it is collected early, in percent of what lives. A hub at rest may have that:
	// to apply much takes more.
	heapRest = 25
	// heapEarly is how much of its room a heap that is not at rest uses, in percent, before it is collected here instead of by the runtime, which has
	// whoever allocates take part: of what 300 of 1,000 targets that came back took of a hub's processor time, that was a sixth. The runtime
	// begins at 70 % at the earliest, and one that is under way then would be followed by another one. What is allocated during such a collection, of
	// some seconds, takes the rest of the room, and may take more.
	heapEarly = 60
	// heapLongest is how long a heap is not collected at most, and heapLongestPace how many seconds for each GiB that lives: what a hub at
	// rest has forgotten is not known before. Small ones are collected for a few thousandths of a processor at most.
	heapLongest     = 30 * time.Minute
	heapLongestPace = 1800
	// heapSpell is how long the smallest of heaps is left alone at least if it is at rest.
	heapSpell = 30 * time.Second
	// heapUnforced is after how long without a collection the runtime is kept from one. It would begin one after two minutes whatever was
	// allocated meanwhile: with a thousand targets that was a fifth of what a hub takes at rest.
	heapUnforced = 100 * time.Second
	// heapFar is how much farther away the bound is while a collection is under way that was begun early: so that hardly anybody else takes
	// part, even if much is allocated meanwhile. It lasts for seconds.
	heapFar = 4
	// heapGlance is how often it is asked whether a collection is due.
	heapGlance = time.Second
	// heapLook is how long the heap is looked at to tell how much is allocated.
	heapLook = 10 * time.Second
	// heapCalm is how much may be allocated meanwhile in a hub that has nothing to do, for each byte that lives. By
	// what was seen of 30 targets, a thousand at rest would take half of that, and to apply much takes twice as much at least.
	heapCalm = 0.2
	// heapCalmLeast is what any hub may allocate meanwhile, in bytes: that of a handful of targets has its Leases and figures to tell, too.
	heapCalmLeast = 4 << 20
	// heapIdle is how much memory such a hub may hold that it does not need, beside a share of what it needs.
	heapIdle = 3 << 20
	// heapPause is how often memory is given back at most, which takes a collection, and heapPausePace how many seconds are between for
	// each GiB that lives, if that is less. After a start or an apply a hub forgets within minutes what was of use for that only.
	heapPause     = 3 * time.Minute
	heapPausePace = 360
	// heapAgain is after how long that is tried again if no more is held than was left the last time: that is gaps between what lives,
	// which fill as the hub works.
	heapAgain = 30 * time.Minute
)

// heapFigures are those of the runtime, in bytes.
type heapFigures struct {
	live      uint64 // after the last collection
	allocated uint64 // ever
	held      uint64 // what the system has given for the heap, and has not got back
	stacks    uint64 // of goroutines: the runtime lets the heap grow by a share of them, too
	cycles    uint64 // collections so far
	others    uint64 // what the system has given for anything else, or what is lost in gaps
}

func readHeap() heapFigures {
	samples := []metrics.Sample{
		{Name: "/gc/heap/live:bytes"}, {Name: "/gc/heap/allocs:bytes"}, {Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/memory/classes/heap/unused:bytes"}, {Name: "/memory/classes/heap/free:bytes"}, {Name: "/memory/classes/heap/stacks:bytes"},
		{Name: "/gc/cycles/total:gc-cycles"}, {Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"},
	}
	metrics.Read(samples)
	n := make([]uint64, len(samples))
	for i, s := range samples {
		if s.Value.Kind() == metrics.KindUint64 {
			n[i] = s.Value.Uint64()
		}
	}
	return heapFigures{
		live: n[0], allocated: n[1], held: n[2] + n[3] + n[4], stacks: n[5], cycles: n[6],
		others: n[7] - min(n[7], n[8]+n[2]+n[4]),
	}
}

// keepHeapRoom sets the pace of garbage collection until ctx ends, and gives memory back that was needed for a while: for the
// first lists after a start, or to apply much. Go gives it back only slowly where little is allocated. An operator who set GOGC
// has decided himself.
//
// The runtime has whoever allocates take part in a collection if the heap is close to its bound. So the bound is that of a busy hub all the
// time, and collections are begun here before, at rest long before: with the bound of a hub at rest, a burst had 2,800 goroutines collect instead of
// work, and corrections wait for a second. What the runtime still begins is in bursts that use up their room between two glances.
func keepHeapRoom(ctx context.Context) error {
	if os.Getenv("GOGC") != "" {
		return nil
	}
	b := boundNow(readHeap())
	defer b.giveBack()
	ticker := time.NewTicker(heapGlance)
	defer ticker.Stop()
	collected := collections(ctx)
	var p pace
	var quiet calm
	var spare surplus
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-collected: // at a start the heap grows tenfold between two looks
		case <-ticker.C:
			now, at := readHeap(), time.Now()
			due, idle := p.due(now, at), quiet.now(now, at)
			switch {
			case idle && spare.givesBack(now, growth(now, quiet.rate()), at):
				b.unhindered(debug.FreeOSMemory) // it collects first
				now = readHeap()
				spare.gaveBack(now, at)
				p.expect(quiet.rate())
			case due:
				b.unhindered(runtime.GC)
			case b.limited && p.growth(now) >= room(now): // there is work: what comes of it may live
				b.inPercent(b.percent)
			case at.Sub(p.since) >= heapUnforced && p.growth(now) < room(now):
				b.inBytes(now)
			}
		}
		b.follow(readHeap())
	}
}

// heapBound is the bound of the heap.
type heapBound struct {
	percent int    // of what lives
	before  int    // the percent that was found
	limit   int64  // the memory limit that was found
	limited bool   // the bound is one in bytes for now
	cycles  uint64 // collections before it was
}

func boundNow(now heapFigures) *heapBound {
	b := &heapBound{percent: bound(now), limit: debug.SetMemoryLimit(-1), cycles: now.cycles}
	b.before = debug.SetGCPercent(b.percent)
	return b
}

// giveBack leaves the runtime as it was found.
func (b *heapBound) giveBack() {
	b.inPercent(b.before)
}

// inPercent sets the bound in percent of what lives.
func (b *heapBound) inPercent(percent int) {
	debug.SetGCPercent(percent)
	if b.limited {
		debug.SetMemoryLimit(b.limit)
		b.limited = false
	}
}

// inBytes sets the same bound in bytes until the next collection, or until there is work. Without a percentage the runtime collects for no other reason.
func (b *heapBound) inBytes(now heapFigures) {
	if b.limited {
		return
	}
	b.limited, b.cycles = true, now.cycles
	debug.SetMemoryLimit(min(limit(now), b.limit)) // an operator's limit is kept
	debug.SetGCPercent(-1)
}

// unhindered collects with the bound far away, and sets it again.
func (b *heapBound) unhindered(collect func()) {
	b.inPercent(heapFar * b.percent)
	defer b.inPercent(b.percent)
	collect()
}

// follow brings the bound in line with what lives, and ends one of bytes at the first collection.
func (b *heapBound) follow(now heapFigures) {
	if b.limited && now.cycles == b.cycles {
		return
	}
	if next := bound(now); next != b.percent || b.limited {
		b.percent = next
		b.inPercent(next)
	}
}

// limit is how much memory a process has at most whose heap is at its bound. The runtime keeps some 3 % of it to spare.
func limit(now heapFigures) int64 {
	grown := float64(bound(now)) / 100 * float64(reckoned(now))
	return int64(float64(now.others) + (float64(now.live)+grown)*1.03)
}

// room is how much a heap may grow at most.
func room(now heapFigures) float64 {
	live := float64(now.live)
	return max(min(heapRoom, heapRoomLeast+live), live*heapGrowth/100)
}

// bound is that in percent of what the runtime reckons with. It goes in steps, so as not to be set all the time.
func bound(now heapFigures) int {
	const step = 10
	return max(int(100*room(now)/float64(reckoned(now)))/step*step, step)
}

// reckoned is what the runtime reckons a percentage of.
func reckoned(now heapFigures) uint64 { return max(now.live+now.stacks, 16<<20) }

// pace tells when a heap is to be collected that is far from its bound. The zero value knows of nothing yet.
type pace struct {
	cycles    uint64    // collections that were noticed
	since     time.Time // of the last of them
	collected uint64    // what was allocated by then
	at        time.Time // of the last look
	allocated uint64    // by then
	rate      float64   // of what is allocated, in bytes a second; zero before the second look
}

// due tells whether as much was allocated since the last collection as is after some time at the present rate, or nearly as much as there is room for.
// A hub that gets work is paced by that at once, and one that has done it little by little.
func (p *pace) due(now heapFigures, at time.Time) bool {
	if now.cycles != p.cycles {
		p.cycles, p.collected, p.since = now.cycles, now.allocated, at
	}
	if p.at.IsZero() {
		p.at, p.allocated, p.since = at, now.allocated, at
	}
	if since := at.Sub(p.at); since >= heapLook {
		p.rate = max(float64(now.allocated-p.allocated)/since.Seconds(), p.rate*math.Exp2(-since.Seconds()/heapLook.Seconds()), 1)
		p.at, p.allocated = at, now.allocated
	}
	growth := min(p.growth(now), room(now)*heapEarly/100)
	return p.rate > 0 && (float64(now.allocated-p.collected) >= growth || at.Sub(p.since) >= spell(now, heapLongestPace, heapLongest))
}

// expect has the pace follow a rate, whatever was allocated before: with that, as much as was given back would be held again before the next
// collection.
func (p *pace) expect(rate float64) { p.rate = max(rate, 1) }

// growth is how much a heap grows until it is due, in bytes.
func (p *pace) growth(now heapFigures) float64 {
	return growth(now, max(p.rate, float64(now.allocated-p.allocated)/heapLook.Seconds())) // what begins now is known before the next look
}

// growth is how much a heap grows at a rate until it is due, in bytes.
func growth(now heapFigures, rate float64) float64 {
	live := float64(now.live)
	return max(rate*heapPace*live/(1<<30), heapLeast, live*heapRest/100)
}

// calm tells when a hub has nothing to do. The zero value knows of nothing yet.
type calm struct {
	past []moment // of the last while, the oldest first
}

// moment is how much was allocated by then.
type moment struct {
	at        time.Time
	allocated uint64
}

// now notes a look at the heap, and tells whether little was allocated for a while until then. It goes by each look instead of by one in a
// while: a start that ends just after one of those would be told a while later.
func (c *calm) now(now heapFigures, at time.Time) bool {
	c.past = append(c.past, moment{at, now.allocated})
	for len(c.past) > 1 && at.Sub(c.past[1].at) >= heapLook {
		c.past = slices.Delete(c.past, 0, 1)
	}
	first := c.past[0]
	return at.Sub(first.at) >= heapLook && float64(now.allocated-first.allocated) < max(heapCalm*float64(now.live), heapCalmLeast)
}

// rate is how much was allocated meanwhile, in bytes a second. A hub that was calm for as long is known not to go on with what it did before:
// after a start it would else hold what the first lists took for a minute.
func (c *calm) rate() float64 {
	first, last := c.past[0], c.past[len(c.past)-1]
	return float64(last.allocated-first.allocated) / max(last.at.Sub(first.at), heapGlance).Seconds()
}

// surplus tells when there is memory to be given back. The zero value has given none back yet.
type surplus struct {
	at   time.Time // when that was done last
	left uint64    // what was held after it
	live uint64    // what lived of that
}

// givesBack tells of a hub at rest whether much is held that is not needed: neither by what lives nor for what is allocated until the
// next collection. What was left the last time counts as needed, less what does not live any more.
func (s *surplus) givesBack(now heapFigures, growth float64, at time.Time) bool {
	if since := at.Sub(s.at); !s.at.IsZero() && since < spell(now, heapPausePace, heapPause) {
		return false
	} else if since >= heapAgain {
		s.left = 0
	}
	needed := max(now.live, s.left-min(s.left, s.live-min(s.live, now.live)))
	return now.live > 0 && now.held > needed+max(now.live/8, uint64(growth))+heapIdle
}

// gaveBack notes what is held after memory was given back.
func (s *surplus) gaveBack(now heapFigures, at time.Time) {
	s.at, s.left, s.live = at, now.held, now.live
}

// spell is some seconds for each GiB that lives, within bounds.
func spell(now heapFigures, pace float64, most time.Duration) time.Duration {
	const gib = 1 << 30
	return min(max(time.Duration(pace*float64(now.live)/gib*float64(time.Second)), heapSpell), most)
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
