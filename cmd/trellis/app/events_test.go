package app

import (
	"context"
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
)

// told takes events where the real recorder would send them.
type told struct {
	notes     []string
	regarding []runtime.Object
}

func (t *told) Eventf(regarding, _ runtime.Object, _, _, _, note string, args ...any) {
	t.notes = append(t.notes, fmt.Sprintf(note, args...))
	t.regarding = append(t.regarding, regarding)
}

// newTold returns events of which, once some were told, the next one has its turn in an hour.
func newTold(g Gomega) (*told, *pacedEvents) {
	scheme, err := newScheme()
	g.Expect(err).NotTo(HaveOccurred())
	t := &told{}
	p := newPacedEvents(t, scheme)
	p.pace.SetLimit(rate.Every(time.Hour))
	return t, p
}

// tell tells about the targets from one on, and returns what is said of them.
func tell(p *pacedEvents, from, to int) (notes []string) {
	for i := from; i < to; i++ {
		target := &hubv1alpha1.TargetCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: fmt.Sprint(i), UID: "1"}}
		p.Eventf(target, nil, corev1.EventTypeNormal, "Ready", "Observe", "target %d is back, 100%%", i)
		notes = append(notes, fmt.Sprintf("target %d is back, 100%%", i))
	}
	return notes
}

func TestWhatHappensToAFewIsToldAtOnce(t *testing.T) {
	g := NewWithT(t)
	told, p := newTold(g)
	notes := tell(p, 0, eventsAtOnce)
	g.Expect(told.notes).To(Equal(notes))
}

func TestWhatHappensToManyIsToldInTurn(t *testing.T) {
	g := NewWithT(t)
	told, p := newTold(g)
	notes := tell(p, 0, eventsAtOnce+200)
	g.Expect(told.notes).To(HaveLen(eventsAtOnce))

	p.pace.SetLimit(10_000)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.start(ctx) }()
	g.Eventually(func() int { return len(p.waiting) }).Should(BeZero())
	cancel()
	g.Eventually(ended).Should(Receive(BeNil()))
	g.Expect(told.notes).To(Equal(notes), "in their order, and none is left out")
	last := told.regarding[len(told.regarding)-1]
	g.Expect(last).To(BeAssignableToTypeOf(&corev1.ObjectReference{}), "so that the object is not kept")
	g.Expect(last).To(And(HaveField("Kind", "TargetCluster"), HaveField("Name", "299"), HaveField("UID", BeEquivalentTo("1"))))
}

func TestTheRestIsToldAtTheEndOfATerm(t *testing.T) {
	g := NewWithT(t)
	told, p := newTold(g)
	notes := tell(p, 0, eventsAtOnce+50)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	g.Expect(p.start(ctx)).To(Succeed())
	p.tellTheRest()
	g.Expect(told.notes).To(Equal(notes))
}

func TestWhoFindsTooManyWaitingDoesNotWait(t *testing.T) {
	g := NewWithT(t)
	told, p := newTold(g)
	tell(p, 0, eventsAtOnce+eventsWaiting)
	g.Expect(told.notes).To(HaveLen(eventsAtOnce))
	notes := tell(p, 10_000, 10_003)
	g.Expect(told.notes[eventsAtOnce:]).To(Equal(notes), "no more than so many are kept")
}
