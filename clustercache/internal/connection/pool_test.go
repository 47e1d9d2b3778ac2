package connection

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
)

// First attempts happen at a rate, and a namespace with very many of them does not delay others.
func TestFirstDialsAreFair(t *testing.T) {
	g := NewWithT(t)
	clock := clocktesting.NewFakeClock(time.Now())
	p := NewPacer(40, clock) // ten at once, and as many in each quarter of a second
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var busy, others atomic.Int32
	for i := range 100 {
		go func() {
			if p.Wait(ctx, types.NamespacedName{Namespace: "busy", Name: fmt.Sprint(i)}) == nil {
				busy.Add(1)
			}
		}()
	}
	g.Eventually(func() int { return int(busy.Load()) + p.pool.Waiting() }).Should(Equal(100))
	g.Expect(busy.Load()).To(BeEquivalentTo(8))
	for i := range 5 {
		go func() {
			if p.Wait(ctx, types.NamespacedName{Namespace: "other", Name: fmt.Sprint(i)}) == nil {
				others.Add(1)
			}
		}()
	}
	g.Eventually(others.Load).Should(BeEquivalentTo(2), "two seats were left")
	g.Eventually(p.pool.Waiting).Should(Equal(92 + 3))
	clock.Step(250 * time.Millisecond)
	g.Eventually(others.Load).Should(BeEquivalentTo(5), "they come before those of the namespace that had more")
	g.Eventually(func() int64 { return int64(busy.Load()) }).Should(BeEquivalentTo(8 + 7))
}
