package managedresource

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
)

func TestPausesAfterFailuresDoubleUpToFiveMinutes(t *testing.T) {
	g := NewWithT(t)
	m, name := newMemory(), types.NamespacedName{Namespace: "a", Name: "b"}
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for i, seconds := range []int{1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300} {
		pause := time.Duration(seconds) * time.Second
		g.Expect(m.failed(name, "input", now)).To(Equal(pause), "failure %d", i)
		g.Expect(m.backoff(name, "input", now)).To(Equal(pause), "nothing is applied before")
		now = now.Add(pause)
		g.Expect(m.backoff(name, "input", now)).To(BeZero(), "and then it is")
	}
	for range 100 { // no overflow makes it short, or none at all
		now = now.Add(m.failed(name, "input", now))
	}
	g.Expect(m.failed(name, "input", now)).To(Equal(5 * time.Minute))

	g.Expect(m.failed(name, "another input", now)).To(Equal(time.Second), "what was changed is tried as if it were the first time")
	m.settled(name, "another input")
	g.Expect(m.failed(name, "another input", now)).To(Equal(time.Second), "and so is what worked meanwhile")
}

func TestFailureBeforeItsTimeMakesThePauseNoLonger(t *testing.T) {
	g := NewWithT(t)
	m, name := newMemory(), types.NamespacedName{Namespace: "a", Name: "b"}
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	now = now.Add(m.failed(name, "input", now))
	g.Expect(m.failed(name, "input", now)).To(Equal(2 * time.Second))
	for range 10 {
		now = now.Add(100 * time.Millisecond)
		m.failed(name, "input", now)
	}
	g.Expect(m.backoff(name, "input", now)).To(Equal(time.Second), "the rest of the pause that began with the second failure")
}
