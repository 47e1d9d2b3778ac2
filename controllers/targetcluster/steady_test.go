package targetcluster

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/utils/clock"

	"github.com/trellis-hub/trellis/clustercache"
)

func TestRevisionsOfTargets(t *testing.T) {
	g := NewWithT(t)
	n := newRevisions()
	a, b, c := clustercache.ClusterKey{Namespace: "one", Name: "a"}, clustercache.ClusterKey{Namespace: "one", Name: "b"}, clustercache.ClusterKey{Namespace: "two", Name: "c"}
	numbers := func() [3]uint64 { return [3]uint64{n.of(a), n.of(b), n.of(c)} }
	before := numbers()
	g.Expect(numbers()).To(Equal(before))
	n.add(a)
	n.addNamespace("two")
	after := numbers()
	g.Expect(after[0]).NotTo(Equal(before[0]))
	g.Expect(after[1]).To(Equal(before[1]))
	g.Expect(after[2]).NotTo(Equal(before[2]), "they were asked about before")
	n.addNamespace("one")
	g.Expect(n.of(b)).NotTo(Equal(before[1]))

	for _, key := range []clustercache.ClusterKey{a, b, c, c} {
		n.forget(key)
	}
	n.addNamespace("one")
	g.Expect(n.namespaces).To(BeEmpty(), "nothing is left of targets that went, or of namespaces that never had any")
}

func TestSettledTargetsAreDue(t *testing.T) {
	now := time.Now()
	key := clustercache.ClusterKey{Namespace: "one", Name: "a"}
	for what, test := range map[string]struct {
		look, until time.Time
		due         bool
	}{
		"neither has come":              {now.Add(time.Second), now.Add(time.Minute), false},
		"a sync period is over":         {now, now.Add(time.Minute), true},
		"something is said differently": {now.Add(time.Minute), now, true},
	} {
		t.Run(what, func(t *testing.T) {
			r := &reconciler{settled: map[clustercache.ClusterKey]settled{key: {compareAt: test.look, until: test.until}}}
			want := BeEmpty()
			if test.due {
				want = ConsistOf(key)
			}
			NewWithT(t).Expect(r.due(now)).To(want)
		})
	}
}

// What panics in a look shows in the reconciliation that follows, which recovers.
func TestLookThatPanicsIsReconciled(t *testing.T) {
	g := NewWithT(t)
	// it has no informer
	r := &reconciler{Options: Options{Clock: clock.RealClock{}}, revisions: newRevisions(), runs: map[*run]struct{}{}}
	g.Expect(r.stillSettled(t.Context(), clustercache.ClusterKey{Namespace: "one", Name: "a"})).To(BeFalse())
	g.Expect(r.runs).To(BeEmpty())
}
