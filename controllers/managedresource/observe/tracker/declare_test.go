package tracker_test

import (
	"testing"

	. "github.com/onsi/gomega"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache/fake"
	"github.com/trellis-hub/trellis/controllers/managedresource/observe/tracker"
)

// The cluster cache forgets the watches of a target whose registration goes. If that comes back before the tracker
// noticed, all is as before for the tracker.
func TestWatchesAreDeclaredAgainAfterTheTargetWasForgotten(t *testing.T) {
	g, s := NewWithT(t), newSetup()
	deployment := ref("Deployment", "default", "d")
	deployment.APIVersion = "apps/v1"
	ignored := ref("Secret", "default", "s")
	ignored.Annotations = map[string]string{resourcesv1alpha1.IgnoreAnnotation: "true"}
	first := []resourcesv1alpha1.ObjectReference{ref("ConfigMap", "default", "a"), deployment, ignored}
	second := []resourcesv1alpha1.ObjectReference{ref("ConfigMap", "default", "b"), ref("Service", "default", "b")}
	g.Expect(s.Track(t.Context(), mr1, cluster, first, tracker.Exact{})).To(Succeed())
	g.Expect(s.Track(t.Context(), mr2, cluster, second, tracker.Exact{})).To(Succeed())
	before := s.watchNames()

	s.clusters.Remove(cluster)
	s.clusters.Add(cluster, fake.Target{})
	g.Expect(s.watchNames()).To(BeEmpty())
	g.Expect(s.Track(t.Context(), mr2, cluster, second, tracker.Exact{})).To(Succeed())
	g.Expect(s.watchNames()).To(Equal([]string{"ConfigMap.v1", "Service.v1"}), "each declares what it needs")
	g.Expect(s.Track(t.Context(), mr1, cluster, first, tracker.Exact{})).To(Succeed())
	g.Expect(s.watchNames()).To(Equal(before))

	s.Forget(mr1)
	g.Expect(s.watchNames()).To(Equal([]string{"ConfigMap.v1", "Service.v1"}))
	s.Forget(mr2)
	g.Expect(s.watchNames()).To(BeEmpty())
}

// An ignored object is watched by its name. When that changes back and forth, the Pods of a Deployment stay watched,
// and are not when it is gone.
func TestIgnoredDeploymentLeavesNoWatchOfPodsBehind(t *testing.T) {
	g, s := NewWithT(t), newSetup()
	deployment := ref("Deployment", "default", "d")
	deployment.APIVersion = "apps/v1"
	ignored := deployment
	ignored.Annotations = map[string]string{resourcesv1alpha1.IgnoreAnnotation: "true"}
	for range 3 {
		g.Expect(s.Track(t.Context(), mr1, cluster, []resourcesv1alpha1.ObjectReference{deployment}, tracker.Exact{})).To(Succeed())
		g.Expect(s.watchNames()).To(Equal([]string{"Deployment.v1.apps", autoscalers, "Pod.v1"}))
		g.Expect(s.Track(t.Context(), mr1, cluster, []resourcesv1alpha1.ObjectReference{ignored}, tracker.Exact{})).To(Succeed())
		g.Expect(s.watchNames()).To(Equal([]string{"Deployment.v1.apps default/d", "Pod.v1"}))
	}
	g.Expect(s.Track(t.Context(), mr1, cluster, nil, tracker.Exact{})).To(Succeed())
	g.Expect(s.watchNames()).To(BeEmpty())
}

// A user may write an inventory by hand. What it lists twice counts once, and what it does not list is gone, however
// long it is.
func TestEntryThatIsListedTwiceCountsOnce(t *testing.T) {
	g, s := NewWithT(t), newSetup()
	a, b := ref("ConfigMap", "default", "a"), ref("Service", "default", "b")
	track := func(refs ...resourcesv1alpha1.ObjectReference) {
		t.Helper()
		g.Expect(s.Track(t.Context(), mr1, cluster, refs, tracker.Exact{})).To(Succeed())
	}
	track(a, b)
	track(a, a)
	g.Expect(s.watchNames()).To(Equal([]string{"ConfigMap.v1"}))
	g.Expect(s.Objects()).To(HaveKeyWithValue(cluster, 1))
	track(b, a, b, a)
	g.Expect(s.watchNames()).To(Equal([]string{"ConfigMap.v1", "Service.v1"}))
	track()
	g.Expect(s.watchNames()).To(BeEmpty())
	g.Expect(s.Objects()).To(HaveKeyWithValue(cluster, 0))
}
