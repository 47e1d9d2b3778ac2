package sharing_test

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/trellis-hub/trellis/controllers/managedresource/source/sharing"
)

func TestTwoThatGiveUpAnObjectDoNotLeaveItToEachOther(t *testing.T) {
	g := NewWithT(t)
	x := sharing.NewIndex()
	x.Observe(mr(a, 1, "both", "mine"))
	x.Observe(mr(b, 2, "both"))
	g.Expect(x.GiveUp(a, key("mine"), nil, cluster)).To(BeFalse(), "no other one lists it")
	g.Expect(x.GiveUp(a, key("both"), nil, sharing.Unbound{}, cluster)).To(BeTrue())
	g.Expect(x.Others(cluster, key("both"), b, nil)).To(BeEmpty())
	x.Observe(mr(a, 1, "both", "mine")) // a late echo of what it wrote before
	g.Expect(x.GiveUp(b, key("both"), nil, cluster)).To(BeFalse(), "it is the last")
	g.Expect(x.Others(cluster, key("both"), a, nil)).To(ConsistOf(b))

	g.Expect(x.Observe(mr(a, 3, "mine")).Concerned).To(ConsistOf(b), "it is notified when that is done")
	x.Observe(mr(a, 4, "both", "mine"))
	x.Keep(a)
	g.Expect(x.Others(cluster, key("both"), b, nil)).To(ConsistOf(a))
}

func TestWhoDeclinesAnObjectIsLeftNothing(t *testing.T) {
	g := NewWithT(t)
	x := sharing.NewIndex()
	x.Observe(mr(a, 1, "both"))
	x.Observe(mr(b, 2, "both"))
	x.Decline(b, key("both"))
	g.Expect(x.GiveUp(a, key("both"), nil, cluster)).To(BeFalse(), "it is the last")
	x.Keep(b)
	g.Expect(x.GiveUp(a, key("both"), nil, cluster)).To(BeTrue())
	x.Decline(c, key("both")) // that is not known any longer
	g.Expect(x.Others(cluster, key("both"), a, nil)).To(ConsistOf(b))
}
