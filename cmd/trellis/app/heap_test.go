package app

import (
	"context"
	"runtime"
	"runtime/debug"
	"testing"

	. "github.com/onsi/gomega"
)

func TestHeapRoomOfSmallAndLargeHeaps(t *testing.T) {
	g := NewWithT(t)
	g.Expect(gcPercent(0)).To(Equal(400))
	g.Expect(gcPercent(32 << 20)).To(Equal(200))
	g.Expect(gcPercent(64 << 20)).To(Equal(100))
	g.Expect(gcPercent(128 << 20)).To(Equal(50))
	g.Expect(gcPercent(70<<20)).To(Equal(75), "down to the next step")
	steps := map[int]bool{}
	for live := range uint64(4 << 10) {
		steps[gcPercent(live<<20)] = true
	}
	g.Expect(len(steps)).To(BeNumerically("<=", 15), "a heap that changes a little is paced as before")
	g.Expect(gcPercent(4<<30)).To(Equal(50), "what lives long need not be room for what does not")
}

func TestMemoryIsGivenBackInCalm(t *testing.T) {
	const mib = 1 << 20
	look := func(live, allocated, held uint64) heapFigures {
		return heapFigures{live: live * mib, allocated: allocated * mib, held: held * mib}
	}
	for name, c := range map[string]struct {
		last, now heapFigures
		want      bool
	}{
		"much is held":                  {look(100, 1000, 300), look(100, 1005, 300), true},
		"much is held, and is needed":   {look(100, 1000, 300), look(100, 1020, 300), false},
		"little is held":                {look(100, 1000, 140), look(100, 1005, 140), false},
		"a small heap":                  {look(10, 1000, 25), look(10, 1000, 25), false},
		"the first look":                {heapFigures{}, look(100, 100, 300), false},
		"before the first collection":   {look(0, 10, 30), look(0, 11, 30), false},
		"the heap shrank, nothing else": {look(300, 1000, 450), look(100, 1001, 450), true},
	} {
		t.Run(name, func(t *testing.T) { NewWithT(t).Expect(givesBack(c.last, c.now)).To(Equal(c.want)) })
	}
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
		g.Eventually(collected).Should(Receive())
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
