package app

import (
	"context"
	"runtime/debug"
	"testing"

	. "github.com/onsi/gomega"
)

func TestHeapRoomOfSmallAndLargeHeaps(t *testing.T) {
	g := NewWithT(t)
	g.Expect(gcPercent(0)).To(Equal(400))
	g.Expect(gcPercent(32 << 20)).To(Equal(200))
	g.Expect(gcPercent(64 << 20)).To(Equal(100))
	g.Expect(gcPercent(4<<30)).To(Equal(100), "a large heap is collected as always")
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
