package identity

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/trellis-hub/trellis/clustercache"
)

func TestWhichTargetsAreTheSameCluster(t *testing.T) {
	g := NewWithT(t)
	a, b, c := clustercache.ClusterKey{Name: "a"}, clustercache.ClusterKey{Name: "b"}, clustercache.ClusterKey{Name: "c"}
	i := NewIndex()
	g.Expect(i.Set(a, Claim{UID: "1"})).To(BeEmpty())
	g.Expect(i.Set(a, Claim{UID: "1"})).To(BeEmpty())
	g.Expect(i.Set(c, Claim{UID: "2"})).To(BeEmpty())
	g.Expect(i.Set(b, Claim{UID: "1"})).To(ConsistOf(a, b))
	g.Expect(i.Others(a)).To(Equal([]clustercache.ClusterKey{b}))
	g.Expect(i.Others(c)).To(BeEmpty())
	g.Expect(i.Set(b, Claim{UID: "1", Released: true})).To(ConsistOf(a, b), "another one may hold the cluster now")
	g.Expect(i.Set(b, Claim{UID: "2"})).To(ConsistOf(a, b, c))
	g.Expect(i.Others(a)).To(BeEmpty())
	g.Expect(i.Set(b, Claim{})).To(ConsistOf(b, c))
	g.Expect(i.Others(b)).To(BeEmpty(), "targets without an identity are not the same")
	i.Set(a, Claim{})
	i.Set(c, Claim{})
	g.Expect(i.byUID).To(BeEmpty())
	g.Expect(i.claims).To(BeEmpty())
}
