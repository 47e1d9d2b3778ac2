package transport

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

func TestWhoAwaitsAGateIsCalledOnce(t *testing.T) {
	g := NewWithT(t)
	var gate Gate
	var called atomic.Int32
	count := func() { called.Add(1) }
	g.Expect(gate.Await(t.Context(), count)).To(BeFalse(), "it is open")

	gate.Close(errors.New("lost"))
	g.Expect(gate.Await(t.Context(), count)).To(BeTrue())
	g.Consistently(called.Load, 50*time.Millisecond).Should(BeZero())
	gate.Open()
	g.Eventually(called.Load).Should(BeEquivalentTo(1))

	gate.Close(errors.New("lost"))
	ctx, cancel := context.WithCancel(t.Context())
	g.Expect(gate.Await(ctx, count)).To(BeTrue())
	cancel()
	g.Eventually(called.Load).Should(BeEquivalentTo(2))
	g.Expect(gate.Await(ctx, count)).To(BeTrue(), "who has ended already is called as well")
	g.Eventually(called.Load).Should(BeEquivalentTo(3))
	gate.Open()
	g.Consistently(called.Load, 50*time.Millisecond).Should(BeEquivalentTo(3), "nobody is called twice")
}

// A connection may be lost again and again while a watch lives.
func TestNothingIsLeftOfWhoAwaitedAGate(t *testing.T) {
	g := NewWithT(t)
	var gate Gate
	var collected atomic.Int32
	await := func() {
		what := new([1 << 10]byte)
		runtime.AddCleanup(what, func(struct{}) { collected.Add(1) }, struct{}{})
		g.Expect(gate.Await(t.Context(), func() { runtime.KeepAlive(what) })).To(BeTrue())
	}
	const outages = 10
	for range outages {
		gate.Close(errors.New("lost"))
		await()
		gate.Open()
	}
	g.Eventually(func() int32 { runtime.GC(); return collected.Load() }).Should(BeEquivalentTo(outages))
}

// Whatever comes first, and however closely, each is called once.
func TestWhoAwaitsAGateThatOpensJustThen(t *testing.T) {
	g := NewWithT(t)
	const rounds = 2000
	var gate Gate
	var called, awaited atomic.Int32
	for range rounds {
		gate.Close(errors.New("lost"))
		ctx, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		group.Go(gate.Open)
		group.Go(cancel)
		group.Go(func() {
			if gate.Await(ctx, func() { called.Add(1) }) {
				awaited.Add(1)
			}
		})
		group.Wait()
		gate.Open()
	}
	g.Eventually(called.Load).Should(Equal(awaited.Load()))
	g.Consistently(called.Load, 50*time.Millisecond).Should(Equal(awaited.Load()))
}
