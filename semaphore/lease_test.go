package semaphore

import (
	"context"
	"testing"
	"testing/synctest"

	. "github.com/onsi/gomega"
)

func TestLeaseGrowsAndShrinks(t *testing.T) {
	g, s := NewWithT(t), New(Options{Size: 10, PerNamespace: 6})
	lease := s.Lease(owned("a", "1"))
	g.Expect(lease.Most()).To(Equal(int64(6)))
	g.Expect(lease.Acquire(t.Context(), 2)).To(Succeed())
	g.Expect(lease.TryGrow(1)).To(BeTrue(), "it holds more already")
	g.Expect(lease.Held()).To(Equal(int64(2)))
	g.Expect(lease.TryGrow(6)).To(BeTrue())
	g.Expect(lease.TryGrow(7)).To(BeFalse(), "the bound of the namespace")
	g.Expect(s.Held()).To(Equal(int64(6)))

	lease.Shrink(7)
	g.Expect(lease.Held()).To(Equal(int64(6)), "shrinking never grows")
	part := lease.Split(2)
	g.Expect([]int64{lease.Held(), part.Held(), s.Held()}).To(Equal([]int64{4, 2, 6}))
	part.Release()
	lease.Shrink(1)
	g.Expect(s.Held()).To(Equal(int64(1)))
	g.Expect(lease.Split(9).Held()).To(Equal(int64(1)), "no more than there is")
	g.Expect(lease.TryGrow(1)).To(BeTrue())
	lease.Shrink(0)
	s.release(owned("a", "1"), 1) // of the part
	lease.Release()
	lease.Release()
	g.Expect(s.Held()).To(BeZero())
	g.Expect(s.namespaces).To(BeEmpty())
	g.Expect(lease.Acquire(t.Context(), 7)).To(MatchError(ErrTooLarge))
}

// One lease of an owner may be larger than its bound, as long as it is the only one.
func TestLeaseThatIsAloneMayBeLarger(t *testing.T) {
	g, s := NewWithT(t), New(Options{Size: 10, PerNamespace: 8, PerOwner: 3, Alone: 9})
	first, second := s.Lease(owned("a", "1")), s.Lease(owned("a", "1"))
	g.Expect(first.Most()).To(Equal(int64(8)), "the bound of the namespace counts nevertheless")
	g.Expect(first.TryGrow(2)).To(BeTrue())
	g.Expect(first.TryGrow(7)).To(BeTrue(), "it is alone")
	g.Expect(second.TryGrow(1)).To(BeFalse())
	first.Shrink(2)
	g.Expect(second.TryGrow(1)).To(BeTrue())
	g.Expect(first.TryGrow(3)).To(BeFalse(), "there are two of them")
	second.Release()
	g.Expect(first.TryGrow(9)).To(BeFalse(), "the bound of the namespace")
	first.Release()
	g.Expect(second.Acquire(t.Context(), 8)).To(Succeed())
	_, ok := s.tryAcquire(owned("a", "2"), 1)
	g.Expect(ok).To(BeFalse())
}

// A lease that shrinks makes room for waiters, and a lease that tries to grow does not overtake them.
func TestLeaseMakesRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, s := NewWithT(t), New(Options{Size: 4})
		large := s.Lease(owned("a", "1"))
		g.Expect(large.Acquire(t.Context(), 3)).To(Succeed())
		got := make(chan struct{})
		go func() {
			if s.Lease(owned("b", "1")).Acquire(t.Context(), 2) == nil {
				close(got)
			}
		}()
		synctest.Wait()
		g.Expect(large.TryGrow(4)).To(BeFalse())
		large.Shrink(2)
		synctest.Wait()
		g.Expect(got).To(BeClosed())
	})
}

func TestLeaseMovesWhateverTheBounds(t *testing.T) {
	g, s := NewWithT(t), New(Options{Size: 9, PerNamespace: 3})
	lease, other := s.Lease(owned("a", "1")), s.Lease(owned("b", "1"))
	g.Expect(lease.TryGrow(3)).To(BeTrue())
	g.Expect(other.TryGrow(2)).To(BeTrue())
	lease.Move(owned("b", "2"))
	g.Expect(lease.Owner()).To(Equal(owned("b", "2")))
	g.Expect(s.Held()).To(Equal(int64(5)))
	g.Expect(s.Lease(owned("a", "1")).TryGrow(3)).To(BeTrue(), "its former owner has room again")
	g.Expect(s.Lease(owned("b", "3")).TryGrow(1)).To(BeFalse(), "its new one has less than none")
	other.Release()
	lease.Move(lease.Owner())
	lease.Release()
	g.Expect(s.Held()).To(Equal(int64(3)))
}

func TestLeaseHoldsNothingAfterWaitingInVain(t *testing.T) {
	g, s := NewWithT(t), New(Options{Size: 1})
	_, _ = s.tryAcquire(owned("a", "1"), 1)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	lease := s.Lease(owned("b", "1"))
	g.Expect(lease.Acquire(ctx, 1)).To(MatchError(context.Canceled))
	g.Expect(lease.Held()).To(BeZero())
	g.Expect(s.Held()).To(Equal(int64(1)))
}
