package tracker_test

import (
	"testing"

	. "github.com/onsi/gomega"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/controllers/managedresource/observe/tracker"
	"github.com/trellis-hub/trellis/engine/ownership"
)

// right has one ConfigMap tracked that is shown as it was accepted.
func right(t *testing.T) (*WithT, *setup) {
	g, s := NewWithT(t), newSetup()
	g.Expect(s.Track(t.Context(), mr1, cluster, []resourcesv1alpha1.ObjectReference{ref("ConfigMap", "default", "a")}, tracker.Exact{})).To(Succeed())
	s.clusters.Sync(cluster, watch, true)
	s.clusters.Put(cluster, watch, configMap("100", ""))
	s.Accept(mr1, key, tracker.Accepted{UID: "uid", ResourceVersion: "100", State: ownership.Observe(configMap("100", ""), "trellis")})
	g.Expect(s.Judge(mr1).Drifted).To(BeEmpty())
	s.causes()
	return g, s
}

// If nothing else shows that the versions of a target went back, it shows in a watch that has an object at an older
// version than before.
func TestObjectThatIsShownAsItWasLongAgo(t *testing.T) {
	g, s := right(t)
	s.clock.Step(2 * tracker.UnseenGrace)
	s.clusters.Put(cluster, watch, configMap("90", ""))
	g.Expect(s.causes()).To(ConsistOf(tracker.CauseDrift))
	g.Expect(s.Judge(mr1).Drifted).To(ConsistOf(key))
}

func TestUnlearnedObjectsAreThoseOfAStart(t *testing.T) {
	g, s := right(t)
	s.Unlearn(mr1)
	g.Expect(s.Known(mr1)).To(BeFalse())
	v := s.Judge(mr1)
	g.Expect(v.Unknown).To(ConsistOf(key))
	g.Expect(v.Drifted).To(BeEmpty())
	g.Expect(s.watchNames()).To(ConsistOf(watch), "its watch goes on")
	s.AcceptObserved(mr1, v.Observed)
	g.Expect(s.Known(mr1)).To(BeTrue())
	s.Unlearn(mr2) // it is not known
}
