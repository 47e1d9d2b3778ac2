package networkpolicy

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/trellis-hub/trellis/controllers/internal/multicluster"
)

// NP-60 What discovery says of Istio in a target that had it counts when it has said so for a while.
func TestNP60_AKindThatIsGoneForAMoment(t *testing.T) {
	g := NewWithT(t)
	m, gateways, now := newMemory(), &multicluster.Objects{}, time.Unix(1000, 0)
	g.Expect(m.absent(gateways, now)).To(BeZero(), "the target never had it")
	m.doubted(gateways)
	g.Expect(m.absent(gateways, now)).To(BeZero())

	m.seen(gateways)
	g.Expect(m.absent(gateways, now)).To(Equal(absencePause))
	now = now.Add(absencePause - time.Second)
	g.Expect(m.absent(gateways, now)).To(Equal(time.Second))
	m.seen(gateways)
	now = now.Add(time.Hour)
	g.Expect(m.absent(gateways, now)).To(Equal(absencePause), "it was there meanwhile")
	now = now.Add(absencePause - time.Second)
	m.doubted(gateways)
	g.Expect(m.absent(gateways, now)).To(Equal(absencePause), "discovery failed meanwhile")
	now = now.Add(absencePause)
	g.Expect(m.absent(gateways, now)).To(BeZero())
	now = now.Add(-time.Minute)
	g.Expect(m.absent(gateways, now)).To(BeZero(), "and it stays gone, until it is seen")
}
