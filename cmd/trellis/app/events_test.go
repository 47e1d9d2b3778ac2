package app

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
)

// listener records the events that the real recorder would send.
type listener struct {
	mu        sync.Mutex
	notes     []string
	regarding []runtime.Object
}

func (l *listener) Eventf(regarding, _ runtime.Object, _, _, _, note string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.notes = append(l.notes, fmt.Sprintf(note, args...))
	l.regarding = append(l.regarding, regarding)
}

func (l *listener) recorded() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.notes)
}

func newListener(g Gomega) (*listener, *pacedEvents, *clocktesting.FakeClock) {
	scheme, err := newScheme()
	g.Expect(err).NotTo(HaveOccurred())
	l, clock := &listener{}, clocktesting.NewFakeClock(time.Now())
	return l, newPacedEvents(l, scheme, clock), clock
}

// report reports an event of each target of a range, and returns the notes of these events.
func report(p *pacedEvents, from, to int) (notes []string) {
	for i := from; i < to; i++ {
		target := &hubv1alpha1.TargetCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: fmt.Sprint(i), UID: "1"}}
		p.Eventf(target, nil, corev1.EventTypeNormal, "Ready", "Observe", "target %d is back, 100%%", i)
		notes = append(notes, fmt.Sprintf("target %d is back, 100%%", i))
	}
	return notes
}

func TestFewEventsAreSentAtOnce(t *testing.T) {
	g := NewWithT(t)
	l, p, _ := newListener(g)
	notes := report(p, 0, eventsAtOnce)
	g.Expect(l.recorded()).To(Equal(notes))
}

func TestManyEventsAreSentAtALimitedRate(t *testing.T) {
	g := NewWithT(t)
	l, p, clock := newListener(g)
	const many = eventsAtOnce + 10
	notes := report(p, 0, many)
	g.Expect(l.recorded()).To(Equal(notes[:eventsAtOnce]))

	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.start(ctx) }()
	for n := eventsAtOnce; n < many; n++ {
		g.Eventually(clock.HasWaiters, "1m").Should(BeTrue())
		g.Expect(l.recorded()).To(HaveLen(n), "the next one is not sent before its turn")
		clock.Step(time.Second/eventsPerSecond + time.Microsecond)
		g.Eventually(l.recorded, "1m").Should(HaveLen(n + 1))
	}
	cancel()
	g.Eventually(ended, "1m").Should(Receive(BeNil()))
	g.Expect(l.recorded()).To(Equal(notes), "in their order, and none is left out")
	last := l.regarding[len(l.regarding)-1]
	g.Expect(last).To(BeAssignableToTypeOf(&corev1.ObjectReference{}), "so that the object is not kept")
	g.Expect(last).To(And(HaveField("Kind", "TargetCluster"), HaveField("Name", fmt.Sprint(many-1)), HaveField("UID", BeEquivalentTo("1"))))
}

func TestEventsDoNotOvertakeThoseThatWait(t *testing.T) {
	g := NewWithT(t)
	l, p, clock := newListener(g)
	notes := report(p, 0, eventsAtOnce+1)
	clock.Step(time.Minute)
	report(p, eventsAtOnce+1, eventsAtOnce+2)
	g.Expect(l.recorded()).To(Equal(notes[:eventsAtOnce]), "it would be sent at once if no other event waited")
}

func TestQueuedEventsAreSentAtTheEndOfATerm(t *testing.T) {
	g := NewWithT(t)
	l, p, _ := newListener(g)
	notes := report(p, 0, eventsAtOnce+50)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	g.Expect(p.start(ctx)).To(Succeed())
	p.flush()
	g.Expect(l.recorded()).To(Equal(notes))
}

func TestEventsAreSentAtOnceIfTooManyWait(t *testing.T) {
	g := NewWithT(t)
	l, p, _ := newListener(g)
	report(p, 0, eventsAtOnce+eventsWaiting)
	g.Expect(l.recorded()).To(HaveLen(eventsAtOnce))
	notes := report(p, 10_000, 10_003)
	g.Expect(l.recorded()[eventsAtOnce:]).To(Equal(notes), "no more than so many are kept")
}
