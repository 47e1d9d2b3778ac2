package targetcluster

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/trellis-hub/trellis/clustercache"
)

func TestNewsOfTargets(t *testing.T) {
	g := NewWithT(t)
	n := newNews()
	a, b, c := clustercache.ClusterKey{Namespace: "one", Name: "a"}, clustercache.ClusterKey{Namespace: "one", Name: "b"}, clustercache.ClusterKey{Namespace: "two", Name: "c"}
	numbers := func() [3]uint64 { return [3]uint64{n.of(a), n.of(b), n.of(c)} }
	before := numbers()
	g.Expect(numbers()).To(Equal(before))
	n.add(a)
	n.ofNamespace("two")
	after := numbers()
	g.Expect(after[0]).NotTo(Equal(before[0]))
	g.Expect(after[1]).To(Equal(before[1]))
	g.Expect(after[2]).NotTo(Equal(before[2]), "they were asked about before")
	n.ofNamespace("one")
	g.Expect(n.of(b)).NotTo(Equal(before[1]))

	for _, key := range []clustercache.ClusterKey{a, b, c, c} {
		n.forget(key)
	}
	n.ofNamespace("one")
	g.Expect(n.namespaces).To(BeEmpty(), "nothing is left of targets that went, or of namespaces that never had any")
}
