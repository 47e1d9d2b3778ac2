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

func TestPaceFollowsWhatIsAllocated(t *testing.T) {
	g := NewWithT(t)
	began := time.Now()
	paced := func(live, stacks uint64, rates ...uint64) int {
		var p pace
		now, at := heapFigures{live: live * mib, stacks: stacks * mib}, began
		percent := p.percent(now, at)
		for _, rate := range rates {
			now.allocated += rate * mib * 10
			at = at.Add(10 * time.Second)
			percent = p.percent(now, at)
		}
		return percent
	}
	g.Expect(paced(0, 0)).To(Equal(400), "a start")
	for _, busy := range []int{paced(32, 0), paced(32, 0, 60)} {
		g.Expect(busy).To(Equal(200), "64 MiB")
	}
	g.Expect(paced(512, 0, 60)).To(Equal(100), "it takes long to go through it")
	g.Expect(paced(400, 100, 60)).To(Equal(80), "the same, of what the runtime reckons with")
	g.Expect(paced(512, 0, 0)).To(Equal(10), "little is allocated")
	g.Expect(paced(64, 0, 0)).To(Equal(20), "so it is here, but there is to be some room: 16 MiB")
	g.Expect(paced(512, 0, 3)).To(Equal(20), "3 MiB a second for 50 s: 150 MiB, in steps")
	g.Expect(paced(512, 0, 60, 0)).To(Equal(100), "it may go on")
	g.Expect(paced(512, 0, 60, 0, 0, 0, 0, 0, 0, 0)).To(Equal(10), "it does not")
	g.Expect(paced(512, 0, 0, 0, 0, 60)).To(Equal(100), "work is there at once")
}

// A hub that gets much work collects several times a second.
func TestCollectionsInARowAreNoCalm(t *testing.T) {
	g := NewWithT(t)
	var p pace
	now, at := heapFigures{live: 512 * mib}, time.Now()
	p.percent(now, at)
	for range 50 {
		at = at.Add(100 * time.Millisecond)
		now.allocated += 20 * mib
		g.Expect(p.percent(now, at)).To(Equal(100))
	}
}

func TestMemoryIsGivenBackInCalm(t *testing.T) {
	look := func(live, allocated, held uint64) heapFigures {
		return heapFigures{live: live * mib, allocated: allocated * mib, held: held * mib}
	}
	now := time.Now()
	before := func(since time.Duration, left uint64) surplus { return surplus{at: now.Add(-since), left: left * mib} }
	for name, c := range map[string]struct {
		spare     surplus
		last, now heapFigures
		want      bool
	}{
		"much is held":                   {surplus{}, look(100, 1000, 200), look(100, 1010, 200), true},
		"much is held, and is needed":    {surplus{}, look(100, 1000, 200), look(100, 1030, 200), false},
		"little is held":                 {surplus{}, look(100, 1000, 125), look(100, 1005, 125), false},
		"a small heap":                   {surplus{}, look(10, 1000, 25), look(10, 1000, 25), false},
		"the first look":                 {surplus{}, heapFigures{}, look(100, 100, 300), false},
		"before the first collection":    {surplus{}, look(0, 10, 30), look(0, 11, 30), false},
		"the heap shrank, nothing else":  {surplus{}, look(300, 1000, 450), look(100, 1001, 450), true},
		"a moment later":                 {before(time.Minute, 100), look(100, 1000, 300), look(100, 1001, 300), false},
		"as much is held as was left":    {before(time.Hour/4, 200), look(100, 1000, 210), look(100, 1001, 210), false},
		"much more is held than that":    {before(time.Hour/4, 200), look(100, 1000, 260), look(100, 1001, 260), true},
		"no more is held, and it's late": {before(time.Hour, 200), look(100, 1000, 210), look(100, 1001, 210), true},
	} {
		t.Run(name, func(t *testing.T) { NewWithT(t).Expect(c.spare.givesBack(c.last, c.now, now)).To(Equal(c.want)) })
	}
}

func TestWhatIsLeftIsNotGivenBackAgain(t *testing.T) {
	g := NewWithT(t)
	now := time.Now()
	held := heapFigures{live: 100 * mib, held: 300 * mib}
	var s surplus
	g.Expect(s.givesBack(held, held, now)).To(BeTrue())
	s.gaveBack(held, now) // all of it were gaps
	now = now.Add(5 * time.Minute)
	g.Expect(s.givesBack(held, held, now)).To(BeFalse())
	g.Expect(s.givesBack(held, held, now.Add(time.Hour))).To(BeTrue())
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
