package targetcluster

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/trellis-hub/trellis/clustercache"
)

func TestIdentities(t *testing.T) {
	g := NewWithT(t)
	a, b, c := clustercache.ClusterKey{Name: "a"}, clustercache.ClusterKey{Name: "b"}, clustercache.ClusterKey{Name: "c"}
	i := newIdentities()
	g.Expect(i.set(a, "1")).To(BeEmpty())
	g.Expect(i.set(a, "1")).To(BeEmpty())
	g.Expect(i.set(c, "2")).To(BeEmpty())
	g.Expect(i.set(b, "1")).To(ConsistOf(a, b))
	g.Expect(i.others(a)).To(Equal([]clustercache.ClusterKey{b}))
	g.Expect(i.others(c)).To(BeEmpty())
	g.Expect(i.set(b, "2")).To(ConsistOf(a, b, c))
	g.Expect(i.others(a)).To(BeEmpty())
	g.Expect(i.set(b, "")).To(ConsistOf(b, c))
	g.Expect(i.others(b)).To(BeEmpty(), "targets without an identity are not the same")
	i.set(a, "")
	i.set(c, "")
	g.Expect(i.byUID).To(BeEmpty())
	g.Expect(i.uids).To(BeEmpty())
}
