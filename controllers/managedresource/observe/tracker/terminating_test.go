package tracker_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/controllers/managedresource/observe/tracker"
	"github.com/trellis-hub/trellis/engine/inventory"
)

// Nothing can be done about an object that is going, whatever happens to it. When it is gone, there is.
func TestWhatIsDoneToATerminatingObjectIsNoDrift(t *testing.T) {
	g, s := settled(t)
	for _, version := range []string{"11", "12"} {
		obj := configMap(version, "other")
		obj.DeletionTimestamp = &metav1.Time{Time: time.Now()}
		s.clusters.Put(cluster, watch, obj)
		if version == "11" {
			g.Expect(s.causes()).To(ConsistOf(tracker.CauseHealth), "that it goes is progress")
		} else {
			g.Expect(s.causes()).To(BeEmpty())
		}
		v := s.Judge(mr1)
		g.Expect(v.Drifted).To(BeEmpty())
		g.Expect(v.Missing).To(BeEmpty())
	}
	s.clusters.Delete(cluster, watch, key.NamespacedName())
	g.Expect(s.causes()).To(ConsistOf(tracker.CauseDrift))
	g.Expect(s.Judge(mr1).Missing).To(ConsistOf(key))
}

// A run that deals with some objects must not take the loss of others for dealt with.
func TestRunOverSomeObjectsLeavesTheOthersMissing(t *testing.T) {
	g, s := settled(t)
	other := inventory.Key{Kind: "ConfigMap", Namespace: "default", Name: "b"}
	refs := []resourcesv1alpha1.ObjectReference{ref("ConfigMap", "default", "a"), ref("ConfigMap", "default", "b")}
	g.Expect(s.Track(t.Context(), mr1, cluster, refs, tracker.Exact{})).To(Succeed())
	live := configMap("11", "")
	live.Name, live.UID = "b", "uid-b"
	s.clusters.Put(cluster, watch, live)
	b := accepted("11")
	b.UID = "uid-b"
	s.Accept(mr1, other, b)
	s.clusters.Delete(cluster, watch, key.NamespacedName())
	s.clusters.Delete(cluster, watch, other.NamespacedName())

	s.Begin(mr1, other)
	s.Accept(mr1, other, tracker.Accepted{UID: "uid-c", ResourceVersion: "20", State: b.State})
	s.End(mr1)
	v := s.Judge(mr1)
	g.Expect(v.Missing).To(ConsistOf(key))
	g.Expect(v.Unseen).To(Equal(1), "the one that was created again")
	states, complete := s.AcceptedStates(mr1)
	g.Expect(complete).To(BeTrue(), "what was right once is made right again while the whole waits for its next attempt")
	g.Expect(states).To(HaveKey(key))
}
