package app

import (
	"context"
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

const mib = 1 << 20

func TestBoundOfTheHeap(t *testing.T) {
	g := NewWithT(t)
	bounded := func(live, stacks uint64) int { return bound(heapFigures{live: live * mib, stacks: stacks * mib}) }
	g.Expect(bounded(0, 0)).To(Equal(100), "a start")
	g.Expect(bounded(16, 0)).To(Equal(200), "16 MiB, and what lives")
	g.Expect(bounded(64, 0)).To(Equal(100), "64 MiB")
	g.Expect(bounded(512, 0)).To(Equal(80), "it takes long to go through it")
	g.Expect(bounded(400, 100)).To(Equal(60), "the same, of what the runtime reckons with")
}

func TestCollectionsFollowWhatIsAllocated(t *testing.T) {
	// spaced is after how many seconds a collection is begun, at most 600; -1 if that is left to the runtime. It begins after minutes at the
	// same rate.
	spaced := func(live uint64, rate float64) int {
		var p pace
		now, at := heapFigures{live: live * mib}, time.Now()
		last := -1
		for second := range 1800 {
			if p.due(now, at) {
				if last > 300 {
					return second - last
				}
				last = second
				now.cycles++
			}
			now.allocated += uint64(rate * mib)
			at = at.Add(time.Second)
			if last < 0 && second > 600 {
				return -1
			}
		}
		return 600
	}
	g := NewWithT(t)
	g.Expect(spaced(700, 3)).To(BeNumerically("~", 102, 3))
	g.Expect(spaced(512, 3)).To(BeNumerically("~", 75, 3), "half the work")
	g.Expect(spaced(700, 1)).To(BeNumerically("~", 175, 3), "a quarter of it")
	g.Expect(spaced(64, 0.5)).To(BeNumerically("~", 32, 3), "there is to be some room: a quarter")
	g.Expect(spaced(4, 0.125)).To(BeNumerically("~", 16, 3), "at least 2 MiB of it")
	g.Expect(spaced(1024, 1)).To(BeNumerically("~", 256, 3), "there is no hurry")
	g.Expect(spaced(1024, 60)).To(BeNumerically("~", 10, 1), "the room decides")
}

func TestABurstIsCollectedByHowMuchRoomThereIs(t *testing.T) {
	g := NewWithT(t)
	var p pace
	now, at := heapFigures{live: 1024 * mib}, time.Now()
	begun := 0
	seconds := func(n int, rate uint64) int {
		begun = 0
		for range n {
			if p.due(now, at) {
				begun++
				now.cycles++
			}
			now.allocated += rate * mib
			at = at.Add(time.Second)
		}
		return begun
	}
	g.Expect(seconds(600, 3)).To(BeNumerically("~", 4, 1))
	g.Expect(seconds(9, 40)).To(BeNumerically("<=", 1), "one may have been due anyway")
	g.Expect(seconds(150, 40)).To(BeNumerically("~", 11, 1), "a bit before the runtime would")
	g.Expect(seconds(30, 3)).To(BeNumerically("<=", 1), "it may go on")
	g.Expect(seconds(600, 3)).To(BeNumerically("~", 4, 1), "little by little it is as before")
}

func TestHeapAtRestIsCollectedAtLast(t *testing.T) {
	for live, longest := range map[uint64]time.Duration{1024: heapLongest, 512: heapLongest / 2, 64: 112500 * time.Millisecond, 8: heapSpell, 0: heapSpell} {
		g := NewWithT(t)
		var p pace
		now, at := heapFigures{live: live * mib}, time.Now()
		g.Expect(p.due(now, at)).To(BeFalse())
		now.allocated++
		g.Expect(p.due(now, at.Add(heapLook))).To(BeFalse())
		g.Expect(p.due(now, at.Add(longest-time.Second))).To(BeFalse())
		g.Expect(p.due(now, at.Add(longest))).To(BeTrue())
		now.cycles++
		g.Expect(p.due(now, at.Add(longest))).To(BeFalse())
	}
}

// The runtime must still collect when the heap has grown as much as it may.
func TestBoundInBytesHoldsUntilTheNextCollection(t *testing.T) {
	g := NewWithT(t)
	percent := debug.SetGCPercent(100)
	defer debug.SetGCPercent(percent)
	found := debug.SetMemoryLimit(-1)
	runtime.GC()
	b := boundNow(readHeap())
	defer b.giveBack()
	b.inBytes(readHeap())
	g.Expect(debug.SetGCPercent(-1)).To(Equal(-1))
	now := readHeap()
	g.Expect(debug.SetMemoryLimit(-1)).To(And(BeNumerically(">", now.live), BeNumerically("<=", limit(now)+8*mib)))
	b.follow(now)
	g.Expect(debug.SetGCPercent(-1)).To(Equal(-1), "nothing was collected yet")

	var waste []byte
	most := uint64(2*heapRoom/mib) + 2*now.live/mib
	for grown := uint64(0); readHeap().cycles == now.cycles; grown++ {
		g.Expect(grown).To(BeNumerically("<", most), "MiB that were allocated without a collection")
		waste = make([]byte, mib)
	}
	runtime.KeepAlive(waste)
	b.follow(readHeap())
	g.Expect(debug.SetMemoryLimit(-1)).To(Equal(found))
	g.Expect(debug.SetGCPercent(b.percent)).To(Equal(b.percent))
	b.inBytes(readHeap())
	b.giveBack()
	g.Expect(debug.SetMemoryLimit(-1)).To(Equal(found))
	g.Expect(debug.SetGCPercent(100)).To(Equal(100))
}

func TestCalmIsWhenLittleWasAllocatedForAWhile(t *testing.T) {
	g := NewWithT(t)
	at := time.Now()
	var c calm
	var now heapFigures
	// after is how many seconds it takes to be calm at a rate, at most 60.
	after := func(live uint64, rate float64) int {
		now.live = live * mib
		for second := range 60 {
			if c.now(now, at) {
				return second
			}
			at = at.Add(heapGlance)
			now.allocated += uint64(rate * mib)
		}
		return 60
	}
	g.Expect(after(100, 1)).To(Equal(10), "before, nothing is known")
	now.allocated += 300 * mib
	g.Expect(after(100, 1)).To(Equal(10), "whenever it ended")
	g.Expect(after(100, 3)).To(BeZero(), "little by little it is told")
	at = at.Add(heapGlance)
	g.Expect(after(100, 3)).To(BeZero())
	now.allocated += 30 * mib
	g.Expect(after(100, 3)).To(Equal(60), "there is work")
	g.Expect(after(1000, 3)).To(BeZero(), "for a large one that is none")
	g.Expect(after(10, 0.5)).To(Equal(60), "for a small one less is")
	g.Expect(after(10, 0.3)).To(BeNumerically("<=", 10), "but not next to nothing")
	g.Expect(len(c.past)).To(BeNumerically("<=", 11))
	at = at.Add(time.Minute) // it did not get to look
	g.Expect(c.now(now, at)).To(BeTrue())
}

func TestMemoryIsGivenBackInCalm(t *testing.T) {
	look := func(live, held uint64) heapFigures { return heapFigures{live: live * mib, held: held * mib} }
	now := time.Now()
	before := func(since time.Duration, live, left uint64) surplus {
		return surplus{at: now.Add(-since), live: live * mib, left: left * mib}
	}
	for name, c := range map[string]struct {
		spare  surplus
		now    heapFigures
		growth float64
		want   bool
	}{
		"much is held":                           {surplus{}, look(100, 200), 0, true},
		"little is held":                         {surplus{}, look(100, 115), 0, false},
		"much is held until the next collection": {surplus{}, look(100, 200), 100, false},
		"more is held than until then":           {surplus{}, look(100, 220), 100, true},
		"a small heap":                           {surplus{}, look(10, 14), 2, false},
		"a small heap with much that is held":    {surplus{}, look(10, 17), 2, true},
		"before the first collection":            {surplus{}, look(0, 30), 0, false},
		"a moment later":                         {before(time.Second, 10, 10), look(10, 45), 0, false},
		"a while later":                          {before(31*time.Second, 10, 10), look(10, 45), 0, true},
		"for a larger one it is a moment":        {before(31*time.Second, 200, 200), look(200, 400), 0, false},
		"a minute later":                         {before(72*time.Second, 200, 200), look(200, 400), 0, true},
		"for the largest it is a moment":         {before(72*time.Second, 1024, 1024), look(1024, 2048), 0, false},
		"some minutes later":                     {before(181*time.Second, 1024, 1024), look(1024, 2048), 0, true},
		"as much is held as was left":            {before(time.Hour/4, 100, 200), look(100, 210), 0, false},
		"much more is held than that":            {before(time.Hour/4, 100, 200), look(100, 260), 0, true},
		"as much is held, but more of it lives":  {before(time.Hour/4, 100, 200), look(150, 220), 0, false},
		"as much is held, but less of it lives":  {before(time.Hour/4, 16, 36), look(9, 36), 2, true},
		"no more is held, and it was long ago":   {before(time.Hour, 100, 200), look(100, 210), 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(c.spare.givesBack(c.now, c.growth*mib, now)).To(Equal(c.want))
		})
	}
}

// A start reads a list of much that is none of the hub's business: the room that took is not needed any more once it is calm.
func TestRoomOfAStartIsGivenBackOnceItIsCalm(t *testing.T) {
	g := NewWithT(t)
	var p pace
	var quiet calm
	var spare surplus
	now, at := heapFigures{live: 12 * mib, held: 40 * mib}, time.Now()
	second := func(rate uint64) bool {
		p.due(now, at)
		idle := quiet.now(now, at)
		given := idle && spare.givesBack(now, growth(now, quiet.rate()), at)
		now.allocated += rate
		at = at.Add(heapGlance)
		return given
	}
	for range 3 {
		g.Expect(second(150 * mib)).To(BeFalse())
	}
	after := 0
	for ; !second(mib / 8); after++ {
		g.Expect(after).To(BeNumerically("<", 60))
	}
	g.Expect(after).To(BeNumerically("~", 10, 1))
	g.Expect(quiet.rate()).To(BeNumerically("~", mib/8, mib/64))
	g.Expect(p.growth(now)).To(BeNumerically(">", 40*mib), "what it did until a while ago would be expected to go on")
	p.expect(quiet.rate())
	g.Expect(p.growth(now)).To(BeNumerically("<=", 4*mib))
	p.expect(0)
	p.due(now, at)
	now.allocated++
	g.Expect(p.due(now, at.Add(heapLongest))).To(BeTrue(), "nothing is no rate, and it is collected at last")
}

func TestWhatIsLeftIsNotGivenBackAgain(t *testing.T) {
	g := NewWithT(t)
	now := time.Now()
	held := heapFigures{live: 100 * mib, held: 300 * mib}
	var s surplus
	g.Expect(s.givesBack(held, 0, now)).To(BeTrue())
	s.gaveBack(held, now) // all of it were gaps
	now = now.Add(5 * time.Minute)
	g.Expect(s.givesBack(held, 0, now)).To(BeFalse())
	forgot := held
	forgot.live -= 30 * mib
	g.Expect(s.givesBack(forgot, 0, now)).To(BeTrue(), "something that lived is no more")
	g.Expect(s.givesBack(held, 0, now.Add(time.Hour))).To(BeTrue())
}

func TestFiguresOfTheHeap(t *testing.T) {
	g := NewWithT(t)
	debug.FreeOSMemory()
	before := readHeap()
	g.Expect(before.live).NotTo(BeZero())
	g.Expect(before.held).To(BeNumerically(">=", before.live/2))
	waste := make([]byte, 32<<20)
	after := readHeap()
	g.Expect(after.allocated - before.allocated).To(BeNumerically(">=", len(waste)))
}

func TestCollectionsAreNoticedUntilTheEnd(t *testing.T) {
	g := NewWithT(t)
	ctx, cancel := context.WithCancel(t.Context())
	collected := collections(ctx)
	// Others may collect as well, and what is collected is told a moment later: so one more is told for certain only when it is
	// known that those before were.
	swept := func() {
		done := make(chan struct{})
		runtime.AddCleanup(new([4]uint64), func(struct{}) { close(done) }, struct{}{})
		g.Eventually(func() <-chan struct{} { runtime.GC(); return done }).Should(BeClosed())
	}
	for range 3 {
		swept()
		// What was set up in the midst of a collection outlives it.
		g.Eventually(func() <-chan struct{} { runtime.GC(); return collected }).Should(Receive())
	}
	cancel()
	g.Eventually(func() bool { // the one that is told of the end sets no other up
		swept()
		select {
		case <-collected:
			return false
		default:
			return true
		}
	}).Should(BeTrue())
	for range 5 {
		swept()
	}
	g.Expect(collected).NotTo(Receive())
}

func TestPaceOfGarbageCollectionIsGivenBack(t *testing.T) {
	g := NewWithT(t)
	before := debug.SetGCPercent(77)
	defer debug.SetGCPercent(before)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	g.Expect(keepHeapRoom(ctx)).To(Succeed())
	g.Expect(debug.SetGCPercent(77)).To(Equal(77))
	t.Setenv("GOGC", "50")
	g.Expect(keepHeapRoom(t.Context())).To(Succeed())
	g.Expect(debug.SetGCPercent(77)).To(Equal(77))
}
