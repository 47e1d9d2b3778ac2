package managedresource

import (
	"context"
	"errors"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// A run that takes long does not hide how long the change has waited that it is to apply, nor does its end if it
// failed.
func TestAChangeIsMeasuredDuringRuns(t *testing.T) {
	g := NewWithT(t)
	l := newLatencies()
	name := types.NamespacedName{Namespace: "a", Name: "b"}
	first := time.Unix(1_700_000_000, 0)
	second := first.Add(time.Minute)

	l.start(name, first)
	g.Expect(l.began(name)).To(Equal(first))
	taken := l.stop(name)
	g.Expect(taken).To(Equal(first))
	l.start(name, second) // the next change
	g.Expect(l.began(name)).To(Equal(first), "the run is not over")
	l.resume(name, taken) // it failed
	l.ended(name)
	g.Expect(l.began(name)).To(Equal(first))

	l.stop(name)
	l.start(name, second)
	l.ended(name) // it succeeded, without the next change
	g.Expect(l.began(name)).To(Equal(second))
	l.stop(name)
	l.ended(name)
	g.Expect(l.began(name)).To(BeZero())
	g.Expect(l.stop(name)).To(BeZero(), "nothing was measured")
	g.Expect(l.since).To(BeEmpty())
	g.Expect(l.taken).To(BeEmpty())
}

// A run that fails, whether by its deadline or a conflict, has not applied the change.
func TestAChangeOfAFailedRunIsStillMeasured(t *testing.T) {
	name := types.NamespacedName{Namespace: "a", Name: "b"}
	since := time.Unix(1_700_000_000, 0)
	overdue, cancel := context.WithDeadline(t.Context(), time.Unix(0, 0))
	defer cancel()
	for title, ctx := range map[string]context.Context{"overdue": overdue, "failed": t.Context()} {
		t.Run(title, func(t *testing.T) {
			g := NewWithT(t)
			r := &reconciler{changes: newLatencies(), drifts: newLatencies()}
			r.changes.start(name, since)
			s := &scope{subject: subject{name: name}, changed: r.changes.stop(name)}
			_, err := r.settle(ctx, s, reconcile.Result{}, errors.New("no answer"))
			g.Expect(err).To(HaveOccurred())
			r.changes.ended(name)
			g.Expect(r.changes.began(name)).To(Equal(since))
		})
	}
}
