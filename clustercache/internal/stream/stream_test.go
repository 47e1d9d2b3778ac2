package stream

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

const gone = "gone"

func none(func(string, ...string)) {}

func next(g Gomega, s *Stream[string, string]) (string, []string) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	key, events, err := s.Next(ctx)
	g.Expect(err).NotTo(HaveOccurred())
	return key, events
}

func expectNothing(g Gomega, s *Stream[string, string]) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	_, _, err := s.Next(ctx)
	g.Expect(err).To(MatchError(context.DeadlineExceeded))
}

func TestEventsAreMergedInTheOrderOfTheirLastOccurrence(t *testing.T) {
	g := NewWithT(t)
	h := NewHub[string](gone)
	s := h.Subscribe(none)
	h.Publish("a", "up", "down")
	h.Publish("b", "up")
	h.Publish("a", "up")
	key, events := next(g, s)
	g.Expect(key).To(Equal("a"))
	g.Expect(events).To(Equal([]string{"down", "up"}))
	key, events = next(g, s)
	g.Expect(key).To(Equal("b"))
	g.Expect(events).To(Equal([]string{"up"}))
	expectNothing(g, s)
}

func TestEndIsReportedOnlyToConsumersThatKnowTheKey(t *testing.T) {
	g := NewWithT(t)
	h := NewHub[string](gone)
	s := h.Subscribe(none)
	h.Publish("a", "up")
	h.Publish("a", gone)
	expectNothing(g, s)
	h.Publish("a", "up")
	next(g, s)
	h.Publish("a", gone)
	h.Publish("a", "up")
	_, events := next(g, s)
	g.Expect(events).To(Equal([]string{gone, "up"}))
	h.Publish("a", gone)
	_, events = next(g, s)
	g.Expect(events).To(Equal([]string{gone}))
	h.Publish("a", gone)
	expectNothing(g, s)
}

func TestMemoryOfALazyConsumerIsBounded(t *testing.T) {
	g := NewWithT(t)
	h := NewHub[string](gone)
	s := h.Subscribe(none)
	for i := range 10000 {
		key := fmt.Sprint(i)
		h.Publish(key, "up", "down")
		h.Publish(key, gone)
	}
	g.Expect(s.order).To(BeEmpty())
	g.Expect(s.pending).To(BeEmpty())
	g.Expect(s.known).To(BeEmpty())
}

func TestSeedAndClose(t *testing.T) {
	g := NewWithT(t)
	h := NewHub[string](gone)
	s := h.Subscribe(func(add func(string, ...string)) { add("a", "up") })
	key, _ := next(g, s)
	g.Expect(key).To(Equal("a"))
	done := make(chan error)
	go func() {
		_, _, err := s.Next(context.Background())
		done <- err
	}()
	s.Close()
	s.Close()
	g.Eventually(done).Should(Receive(MatchError(ErrClosed)))
	h.Publish("a", "up")
	g.Expect(s.pending).To(BeEmpty())
	g.Expect(h.Len()).To(BeZero())
}

func TestManyPublishersAndConsumers(t *testing.T) {
	g := NewWithT(t)
	h := NewHub[string](gone)
	s := h.Subscribe(none)
	var publishers, consumers sync.WaitGroup
	var mu sync.Mutex
	last := map[string]string{}
	ctx, cancel := context.WithCancel(context.Background())
	for range 3 {
		consumers.Go(func() {
			for {
				key, events, err := s.Next(ctx)
				if err != nil {
					return
				}
				mu.Lock()
				last[key] = events[len(events)-1]
				mu.Unlock()
			}
		})
	}
	for i := range 5 {
		publishers.Go(func() {
			for range 1000 {
				h.Publish(fmt.Sprint(i), "up", "down")
			}
		})
	}
	publishers.Wait()
	g.Eventually(func() int { mu.Lock(); defer mu.Unlock(); return len(last) }).Should(Equal(5))
	cancel()
	consumers.Wait()
}
