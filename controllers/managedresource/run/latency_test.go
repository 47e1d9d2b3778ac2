package run

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
)

// A run that takes long does not hide how long the change has waited that it is to apply, nor does its end if it
// failed.
func TestAChangeIsMeasuredDuringRuns(t *testing.T) {
	g := NewWithT(t)
	l := NewLatencies()
	name := types.NamespacedName{Namespace: "a", Name: "b"}
	first := time.Unix(1_700_000_000, 0)
	second := first.Add(time.Minute)

	l.Start(name, first)
	g.Expect(l.Began(name)).To(Equal(first))
	taken := l.Stop(name)
	g.Expect(taken).To(Equal(first))
	l.Start(name, second) // the next change
	g.Expect(l.Began(name)).To(Equal(first), "the run is not over")
	l.Resume(name, taken) // it failed
	l.Ended(name)
	g.Expect(l.Began(name)).To(Equal(first))

	l.Stop(name)
	l.Start(name, second)
	l.Ended(name) // it succeeded, without the next change
	g.Expect(l.Began(name)).To(Equal(second))
	l.Stop(name)
	l.Ended(name)
	g.Expect(l.Began(name)).To(BeZero())
	g.Expect(l.Stop(name)).To(BeZero(), "nothing was measured")
	g.Expect(l.since).To(BeEmpty())
	g.Expect(l.taken).To(BeEmpty())
}
