package mapperpool

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	clocktesting "k8s.io/utils/clock/testing"
)

func TestDoubtAboutAGroupIsRare(t *testing.T) {
	g := NewWithT(t)
	clock := clocktesting.NewFakePassiveClock(time.Unix(1e9, 0))
	s := newServer(t, "Thing")
	m := mapperOf(New(Options{Clock: clock}), s)
	look := func() int {
		_, err := m.RESTMapping(kind("Thing"), "v1")
		g.Expect(err).NotTo(HaveOccurred())
		requests, _ := s.counts()
		return requests
	}
	asked := look()
	step := func(d time.Duration) { clock.SetTime(clock.Now().Add(d)) }

	g.Expect(m.Suspect("example.com")).To(BeFalse(), "that was just said")
	g.Expect(look()).To(Equal(asked))
	step(2 * time.Second)
	g.Expect(m.Suspect("example.com")).To(BeTrue())
	g.Expect(look()).To(BeNumerically(">", asked), "what it serves is asked again")
	asked = look()

	step(2 * time.Second)
	g.Expect(m.Suspect("example.com")).To(BeFalse(), "the group was suspected a moment ago")
	g.Expect(m.Suspect("")).To(BeTrue(), "another one was not")
	g.Expect(look()).To(BeNumerically(">", asked))
	step(suspectPause)
	g.Expect(m.Suspect("example.com")).To(BeTrue())
	g.Expect(m.suspected).To(HaveLen(1), "what is over is forgotten")
}
