package journal_test

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	. "github.com/trellis-hub/trellis/hack/fleetsim/journal"
)

func TestCounts(t *testing.T) {
	g := NewWithT(t)
	j := New(Options{})
	for i := range 3 {
		j.Target("alpha").Answered(Request{Verb: "get", Resource: "pods", Code: 200, UserAgent: "trellis", BytesIn: 1, BytesOut: 10, Took: time.Duration(i) * time.Second})
	}
	j.Target("beta").Answered(Request{Verb: "get", Resource: "pods", Code: 200, UserAgent: "trellis", BytesOut: 5})
	j.Target("beta").Answered(Request{Verb: "get", Resource: "pods", Code: 404, UserAgent: "trellis"})
	j.Target("beta").Answered(Request{Verb: VerbApply, Resource: "roles.rbac.authorization.k8s.io", Code: 200, UserAgent: "kubectl"})

	g.Expect(j.Target("alpha").Counts()).To(Equal(Counts{
		{Verb: "get", Resource: "pods", Code: 200, UserAgent: "trellis", Tally: Tally{Requests: 3, BytesIn: 3, BytesOut: 30, Took: 3 * time.Second, Slowest: 2 * time.Second}},
	}))
	for _, resource := range []string{"selfsubjectreviews.authentication.k8s.io", "subjectaccessreviews.authorization.k8s.io", "serviceaccounts/token"} {
		j.Target("beta").Answered(Request{Verb: "create", Resource: resource, Code: 201})
	}
	all := j.Counts()
	g.Expect(all).To(HaveLen(6))
	g.Expect(all[0].Requests).To(BeEquivalentTo(4), "the most frequent comes first, of all targets together")
	g.Expect(all[0].BytesOut).To(BeEquivalentTo(35))
	g.Expect(all.Verbs("get").Sum().Requests).To(BeEquivalentTo(5))
	g.Expect(all.Writes()).To(ConsistOf(HaveField("UserAgent", "kubectl")))
	g.Expect(all.Where(func(c Count) bool { return c.Code >= 400 }).Sum().Requests).To(BeEquivalentTo(1))

	j.Reset()
	g.Expect(j.Counts()).To(BeEmpty())
}

func TestCountsAreBounded(t *testing.T) {
	g := NewWithT(t)
	_, alpha := target(Options{Counts: 10})
	for i := range 1000 {
		alpha.Answered(Request{Verb: "get", Resource: "pods", Code: 200, UserAgent: fmt.Sprintf("agent-%d", i)})
	}
	for range 5 {
		alpha.Answered(Request{Verb: "get", Resource: "pods", Code: 200, UserAgent: "agent-3"})
	}
	counts := alpha.Counts()
	g.Expect(counts).To(HaveLen(11))
	g.Expect(counts[0]).To(Equal(Count{Verb: Other, Resource: Other, UserAgent: Other, Tally: Tally{Requests: 990}}), "none is lost")
	g.Expect(counts[1].UserAgent).To(Equal("agent-3"), "those that have a count keep it")
	g.Expect(counts[1].Requests).To(BeEquivalentTo(6))
}

func TestCountingDoesNotAllocate(t *testing.T) {
	g := NewWithT(t)
	_, alpha := target(Options{})
	request := Request{Verb: "get", Resource: "pods", Code: 200, UserAgent: "trellis"}
	alpha.Answered(request)
	g.Expect(testing.AllocsPerRun(100, func() { alpha.Answered(request) })).To(BeZero())
}
