package transport

import (
	"context"
	"errors"
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

// counted is a context that counts who is to be called at its end.
type counted struct {
	context.Context
	waiting atomic.Int32
}

// AfterFunc is what context.AfterFunc calls.
func (c *counted) AfterFunc(func()) (stop func() bool) {
	c.waiting.Add(1)
	return sync.OnceValue(func() bool { c.waiting.Add(-1); return true })
}

func (c *counted) Done() <-chan struct{} { return make(chan struct{}) }

// A connection may be lost again and again while a watch lives.
func TestNothingIsLeftOfWhoAwaitedAGate(t *testing.T) {
	g := NewWithT(t)
	var gate Gate
	ctx := &counted{Context: t.Context()}
	for range 10 {
		gate.Close(errors.New("lost"))
		g.Expect(gate.Await(ctx, func() {})).To(BeTrue())
		g.Expect(ctx.waiting.Load()).To(BeEquivalentTo(1))
		gate.Open()
		g.Eventually(ctx.waiting.Load).Should(BeZero())
	}
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
