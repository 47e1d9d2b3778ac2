package targetfacts_test

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/trellis-hub/trellis/clustercache"
	. "github.com/trellis-hub/trellis/controllers/internal/targetfacts"
)

// publisher knows of one target that it has corrected something.
type publisher struct{ target clustercache.ClusterKey }

func (p publisher) Facts(target clustercache.ClusterKey) Facts {
	if target == p.target {
		return Facts{DriftLastHour: 1}
	}
	return Facts{}
}

func (p publisher) WorksIn(target clustercache.ClusterKey) bool { return target == p.target }

func (p publisher) ManagedElsewhere(namespace string) (manager string, elsewhere bool) {
	return "another", namespace == p.target.Namespace
}

func TestNothingIsKnownUntilItIsPublished(t *testing.T) {
	g := NewWithT(t)
	key := clustercache.ClusterKey{Namespace: "one", Name: "a"}
	term := &Term{}
	for _, without := range []*Term{nil, term} {
		g.Expect(without.Of(key)).To(BeNil())
		g.Expect(without.WorksIn(key)).To(BeFalse())
		_, elsewhere := without.ManagedElsewhere("one")
		g.Expect(elsewhere).To(BeFalse())
	}
	term.Publish(publisher{key})
	g.Expect(term.Of(key)).To(HaveValue(Equal(Facts{DriftLastHour: 1})))
	g.Expect(term.Of(clustercache.ClusterKey{Namespace: "two", Name: "a"})).To(HaveValue(Equal(Facts{})))
	g.Expect(term.WorksIn(key)).To(BeTrue())
	manager, elsewhere := term.ManagedElsewhere("one")
	g.Expect([]any{manager, elsewhere}).To(Equal([]any{"another", true}))
}
