package clustercache

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/client-go/util/workqueue"
)

func TestSourceBeginsWithWhatExists(t *testing.T) {
	h, _, key := connected(t, Options{})
	late := h.cache.GetClusterSource("late")
	defer late.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	event, err := late.Next(ctx)
	h.Expect(err).NotTo(HaveOccurred())
	h.Expect(event.Cluster).To(Equal(key))
	h.Expect(event.Has(EventRegistered)).To(BeTrue())
	h.Expect(event.Has(EventConnected)).To(BeTrue())
}

func TestOldestHandlingOfAnEvent(t *testing.T) {
	h, _, _ := connected(t, Options{})
	source := func(name string) EventSource {
		s := h.cache.GetClusterSource(name)
		t.Cleanup(s.Close)
		return s
	}
	first, second := source("first"), source("second")
	idle := func(s EventSource) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := s.Next(ctx)
		h.Expect(err).To(HaveOccurred())
	}
	busy := func(s EventSource) {
		_, err := s.Next(t.Context())
		h.Expect(err).NotTo(HaveOccurred())
	}
	oldest := h.cache.OldestHandling
	h.Expect(oldest()).To(BeZero(), "no event was taken")

	before := time.Now()
	busy(first)
	after := time.Now()
	h.Expect(oldest()).To(And(BeTemporally(">=", before), BeTemporally("<=", after)))
	busy(second)
	h.Expect(oldest()).To(BeTemporally("<=", after), "the oldest counts")
	idle(first)
	h.Expect(oldest()).To(BeTemporally(">=", after))
	second.Close()
	h.Expect(oldest()).To(BeZero())
}

func TestConsumerThatNeverReadsDelaysNoOther(t *testing.T) {
	h := start(t, Options{})
	a := newAPIServer(t, newStore("uid-a"))
	lazy := h.cache.GetClusterSource("lazy")
	defer lazy.Close()
	for range 50 {
		key := h.register("a", a.kubeconfig("x"))
		h.expectEvent(key, EventConnected)
		h.unregister(key)
		h.expectEvent(key, EventGone)
	}
	// Another one is reported after all that. A reader that gets it has got everything before.
	last := h.register("last", a.kubeconfig("x"))
	h.expectEvent(last, EventConnected)
	event, err := lazy.Next(t.Context())
	h.Expect(err).NotTo(HaveOccurred())
	h.Expect(event.Cluster).To(Equal(last), "events of targets that are gone are dropped")
}

func TestSourceOfAController(t *testing.T) {
	h, _, key := connected(t, Options{})
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
	defer queue.ShutDown()
	ctx, cancel := context.WithCancel(context.Background())
	before := h.cache.hub.Len()
	s := NewSource(h.cache, "test", func(_ context.Context, e Event) []string { return []string{e.Cluster.Name} })
	h.Expect(s.Start(ctx, queue)).To(Succeed())
	item, _ := queue.Get()
	h.Expect(item).To(Equal(key.Name))
	queue.Done(item)
	cancel()
	h.Eventually(h.cache.hub.Len).Should(Equal(before), "it ends with its context")
}
