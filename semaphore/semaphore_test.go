package semaphore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
)

func owned(namespace, name string) Owner { return Owner{Namespace: namespace, Name: name} }

func TestBounds(t *testing.T) {
	a1, none := []Owner{owned("a", "1")}, []Owner{owned("", "1")}
	for name, c := range map[string]struct {
		options Options
		held    []Owner // one place each
		asks    Owner
		n       int64
		ok      bool
	}{
		"a free place":                    {Options{Size: 2}, a1, owned("a", "1"), 1, true},
		"no free place":                   {Options{Size: 1}, a1, owned("b", "1"), 1, false},
		"not enough places":               {Options{Size: 2}, a1, owned("b", "1"), 2, false},
		"the bound of an owner":           {Options{Size: 9, PerOwner: 1}, a1, owned("a", "1"), 1, false},
		"another owner":                   {Options{Size: 9, PerOwner: 1}, a1, owned("a", "2"), 1, true},
		"the bound of a namespace":        {Options{Size: 9, PerNamespace: 1}, a1, owned("a", "2"), 1, false},
		"another namespace":               {Options{Size: 9, PerNamespace: 1}, a1, owned("b", "1"), 1, true},
		"no namespace, so no bound of it": {Options{Size: 9, PerNamespace: 1}, none, owned("", "2"), 1, true},
		"a bound above the size":          {Options{Size: 1, PerOwner: 5}, nil, owned("a", "1"), 2, false},
	} {
		t.Run(name, func(t *testing.T) {
			g, s := NewWithT(t), New(c.options)
			for _, owner := range c.held {
				_, ok := s.tryAcquire(owner, 1)
				g.Expect(ok).To(BeTrue())
			}
			release, ok := s.tryAcquire(c.asks, c.n)
			g.Expect(ok).To(Equal(c.ok))
			if ok {
				g.Expect(s.Held()).To(Equal(int64(len(c.held)) + c.n))
				release()
				release() // more than once is fine
			}
			g.Expect(s.Held()).To(Equal(int64(len(c.held))))
		})
	}
}

func TestRequestThatCanNeverBeGranted(t *testing.T) {
	g, s := NewWithT(t), New(Options{Size: 8, PerNamespace: 4, PerOwner: 6})
	_, err := s.Acquire(t.Context(), owned("a", "1"), 5)
	g.Expect(err).To(MatchError(ErrTooLarge))
	release, err := s.Acquire(t.Context(), owned("", "1"), 6)
	g.Expect(err).NotTo(HaveOccurred())
	release()
}

// One namespace fills all places and has hundreds of requests in the queue: another one is next all the same.
func TestNamespacesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, s := NewWithT(t), New(Options{Size: 2})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var releases []func()
		for i := range 2 {
			release, err := s.Acquire(ctx, owned("busy", fmt.Sprint(i)), 1)
			g.Expect(err).NotTo(HaveOccurred())
			releases = append(releases, release)
		}
		for i := range 300 {
			go func() { _, _ = s.Acquire(ctx, owned("busy", fmt.Sprint(i)), 1) }()
		}
		synctest.Wait()
		got := make(chan struct{})
		go func() {
			if _, err := s.Acquire(ctx, owned("other", "1"), 1); err == nil {
				close(got)
			}
		}()
		synctest.Wait()
		releases[0]()
		synctest.Wait()
		g.Expect(got).To(BeClosed())
	})
}

// Inside a namespace the owner that holds least is next, whichever came first.
func TestThenOwners(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, s := NewWithT(t), New(Options{Size: 2})
		first, _ := s.tryAcquire(owned("a", "busy"), 1)
		_, _ = s.tryAcquire(owned("a", "busy"), 1)
		var order []string
		var mu sync.Mutex
		for _, name := range []string{"busy", "idle"} {
			go func() {
				if _, err := s.Acquire(t.Context(), owned("a", name), 1); err == nil {
					mu.Lock()
					defer mu.Unlock()
					order = append(order, name)
				}
			}()
			synctest.Wait()
		}
		first()
		synctest.Wait()
		g.Expect(order).To(Equal([]string{"idle"}))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := s.Acquire(ctx, owned("a", "third"), 1)
		g.Expect(err).To(MatchError(context.DeadlineExceeded))
		s.release(owned("a", "busy"), 1)
		synctest.Wait()
		g.Expect(order).To(Equal([]string{"idle", "busy"}))
	})
}

// A request for many places is not overtaken by small ones. One that its own bound holds back delays no other.
func TestLargeRequestsAreNotStarved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, s := NewWithT(t), New(Options{Size: 4, PerOwner: 4})
		small, _ := s.tryAcquire(owned("a", "1"), 1)
		got := make(chan struct{})
		go func() {
			if _, err := s.Acquire(t.Context(), owned("b", "1"), 4); err == nil {
				close(got)
			}
		}()
		synctest.Wait()
		_, ok := s.tryAcquire(owned("c", "1"), 1)
		g.Expect(ok).To(BeFalse(), "there is a waiter for free places")
		small()
		synctest.Wait()
		g.Expect(got).To(BeClosed())
	})
}

func TestRequestsBlockedByTheirOwnBoundDelayNoOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, s := NewWithT(t), New(Options{Size: 4, PerNamespace: 1})
		_, _ = s.tryAcquire(owned("a", "1"), 1)
		ctx, cancel := context.WithCancel(t.Context())
		go func() { _, _ = s.Acquire(ctx, owned("a", "2"), 1) }()
		synctest.Wait()
		g.Expect(s.Waiting()).To(Equal(1))
		_, ok := s.tryAcquire(owned("b", "1"), 1)
		g.Expect(ok).To(BeTrue())
		cancel()
		synctest.Wait()
		g.Expect(s.Waiting()).To(BeZero())
	})
}

// Giving up a large request lets the waiters behind it pass.
func TestAbandonedRequestIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, s := NewWithT(t), New(Options{Size: 2})
		release, _ := s.tryAcquire(owned("a", "1"), 1)
		ctx, cancel := context.WithCancelCause(t.Context())
		gaveUp := errors.New("gave up")
		failed := make(chan error, 1)
		go func() {
			_, err := s.Acquire(ctx, owned("b", "1"), 2)
			failed <- err
		}()
		synctest.Wait()
		got := make(chan func(), 1)
		go func() {
			if release, err := s.Acquire(t.Context(), owned("c", "1"), 1); err == nil {
				got <- release
			}
		}()
		synctest.Wait()
		g.Expect(got).To(BeEmpty())
		cancel(gaveUp)
		synctest.Wait()
		g.Expect(<-failed).To(MatchError(gaveUp))
		g.Expect(got).To(HaveLen(1))
		(<-got)()
		release()
		g.Expect(s.namespaces).To(BeEmpty(), "owners that hold nothing are dropped")
	})
}

func TestManyAtOnce(t *testing.T) {
	g, s := NewWithT(t), New(Options{Size: 7, PerNamespace: 5, PerOwner: 3})
	var all sync.WaitGroup
	for i := range 200 {
		all.Go(func() {
			ctx, cancel := context.WithCancel(t.Context())
			if i%7 == 0 {
				cancel()
			}
			defer cancel()
			if release, err := s.Acquire(ctx, owned(fmt.Sprint(i%3), fmt.Sprint(i%11)), int64(i%3+1)); err == nil {
				if held := s.Held(); held > 7 {
					t.Errorf("%d are held", held)
				}
				release()
			}
		})
	}
	all.Wait()
	g.Expect(s.Held()).To(BeZero())
	g.Expect(s.Waiting()).To(BeZero())
	g.Expect(s.namespaces).To(BeEmpty())
}

func BenchmarkAcquire(b *testing.B) {
	s := New(Options{Size: 64, PerNamespace: 16, PerOwner: 4})
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if release, err := s.Acquire(b.Context(), owned("a", "1"), 1); err == nil {
				release()
			}
		}
	})
}

// tryAcquire acquires n if that is possible at once, without overtaking waiters for free capacity.
func (s *Semaphore) tryAcquire(of Owner, n int64) (release func(), ok bool) {
	if !s.tryGrow(of, 0, n) {
		return nil, false
	}
	return s.releaser(of, n), true
}
