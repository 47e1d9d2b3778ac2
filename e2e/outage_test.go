package e2e

import (
	"testing"

	. "github.com/onsi/gomega"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/hack/testbed"
)

const (
	applied     = resourcesv1alpha1.ConditionResourcesApplied
	healthy     = resourcesv1alpha1.ConditionResourcesHealthy
	progressing = resourcesv1alpha1.ConditionResourcesProgressing
	ready       = resourcesv1alpha1.ConditionReady
)

// expectOutage checks what is reported while one target is unavailable and another is not, and that the other is
// reconciled meanwhile.
func expectOutage(away, other *space, otherCluster *testbed.Cluster) {
	away.t.Helper()
	away.eventuallyCondition("mr", ready, "Unknown/TargetUnreachable")
	away.Expect(away.condition("mr", healthy)).To(Equal("Unknown/TargetUnreachable"))
	away.Expect(away.condition("mr", progressing)).To(Equal("Unknown/TargetUnreachable"))
	away.Expect(away.condition("mr", applied)).To(Equal("True/ApplySucceeded"), "what was applied stays applied")
	away.Eventually(func() string { return away.targetCondition("target") }).Should(HavePrefix("False/"))

	other.edit(otherCluster, "one", "edited during the outage")
	other.eventuallyValue(otherCluster, "one", "1")
	other.remove(otherCluster, "two")
	other.eventuallyValue(otherCluster, "two", "2")
}

// twoSpaces are two spaces with a target each and the same ManagedResource.
func twoSpaces(t *testing.T) (away, other *space) {
	t.Helper()
	away, other = newSpace(t, nil), newSpace(t, nil)
	for _, s := range []*space{away, other} {
		s.manage("mr", s.configMap("one", "1"), s.configMap("two", "2"), s.configMap("three", "3"))
	}
	return away, other
}

func TestAPIServerOfATargetIsKilled(t *testing.T) {
	away, other := twoSpaces(t)
	t.Cleanup(func() { away.Expect(east.StartAPIServer(away.ctx)).To(Succeed()) })
	away.startHub()
	away.register("target", east)
	other.register("target", west)
	away.eventuallyReady("mr")
	other.eventuallyReady("mr")
	changes := other.watchStatus()

	east.KillAPIServer()
	expectOutage(away, other, west)
	away.Expect(east.StartAPIServer(away.ctx)).To(Succeed())
	away.remove(east, "three")
	away.edit(east, "one", "edited as soon as the API server was back")
	away.eventuallyValue(east, "one", "1")
	away.eventuallyValue(east, "three", "3")
	away.eventuallyReady("mr")
	away.Expect(changes()).To(BeEmpty(), "what is said of the other target")
}

func TestAPIServerOfATargetHangs(t *testing.T) {
	away, other := twoSpaces(t)
	t.Cleanup(func() { away.Expect(east.Thaw()).To(Succeed()) })
	away.startHub()
	away.register("target", east)
	other.register("target", west)
	away.eventuallyReady("mr")
	other.eventuallyReady("mr")
	changes := other.watchStatus()

	away.Expect(east.Freeze()).To(Succeed())
	expectOutage(away, other, west)
	away.Expect(east.Thaw()).To(Succeed())
	away.remove(east, "three")
	away.edit(east, "one", "edited as soon as the API server was back")
	away.eventuallyValue(east, "one", "1")
	away.eventuallyValue(east, "three", "3")
	away.eventuallyReady("mr")
	away.Expect(changes()).To(BeEmpty(), "what is said of the other target")
}

func TestDriftWhileTheTargetCannotBeReached(t *testing.T) {
	away, other := twoSpaces(t)
	way := newLink(t, east)
	away.startHub()
	away.registerBy("target", way.kubeconfig())
	other.register("target", west)
	away.eventuallyReady("mr")
	other.eventuallyReady("mr")

	way.setCut(true)
	expectOutage(away, other, west)
	away.edit(east, "one", "edited while the hub was cut off")
	away.remove(east, "two")
	way.setCut(false)
	away.eventuallyValue(east, "one", "1")
	away.eventuallyValue(east, "two", "2")
	away.eventuallyReady("mr")
	away.eventuallyEvent("mr", "DriftCorrected", "one")
}

func TestDriftWhileNoHubRuns(t *testing.T) {
	s := newSpace(t, nil)
	s.register("target", east)
	s.manage("mr", s.configMap("one", "1"), s.configMap("two", "2"))
	first := s.startHub()
	s.eventuallyReady("mr")
	s.stopHub(first)

	s.edit(east, "one", "edited while no hub ran")
	s.remove(east, "two")
	s.startHub()
	s.eventuallyValue(east, "one", "1")
	s.eventuallyValue(east, "two", "2")
	s.eventuallyReady("mr")
}

func TestDeletionWhileTheTargetCannotBeReached(t *testing.T) {
	s := newSpace(t, nil)
	way := newLink(t, east)
	s.startHub()
	s.registerBy("target", way.kubeconfig())
	keeping := testbed.ManagedResource(s.name, "keeping", "keeping")
	keeping.Spec.KeepObjects = new(true)
	s.manage("waiting", s.configMap("waiting", "w"))
	s.manage("forced", s.configMap("forced", "f"))
	s.manageWith(keeping, testbed.Content(s.name, "keeping", "objects.yaml", s.configMap("keeping", "k")))
	s.eventuallyReady("waiting", "forced", "keeping")
	way.setCut(true)
	s.eventuallyCondition("waiting", ready, "Unknown/TargetUnreachable")

	for _, name := range []string{"waiting", "forced", "keeping"} {
		s.deleteMR(name)
	}
	s.eventuallyGone("keeping")
	for _, name := range []string{"waiting", "forced"} {
		s.eventuallyCondition(name, applied, "Progressing/DeletionPending")
		s.Eventually(func() string {
			return resourcesv1alpha1.GetCondition(s.mr(name).Status.Conditions, applied).Message
		}).Should(And(ContainSubstring("Waiting for the target cluster"), ContainSubstring("confirmation.gardener.cloud/force-deletion")))
	}
	s.patchMR("forced", `{"metadata":{"annotations":{"confirmation.gardener.cloud/force-deletion":"true"}}}`)
	s.eventuallyGone("forced")
	s.eventuallyEvent("forced", "ObjectsReleased", "ConfigMap "+s.name+"/forced")
	s.Expect(s.mr("waiting").Finalizers).To(ContainElement(resourcesv1alpha1.Finalizer("")))

	way.setCut(false)
	s.eventuallyGone("waiting")
	s.Expect(s.value(east, "waiting")).To(BeEmpty(), "deleted before the ManagedResource was let go of")
	s.Expect(s.value(east, "forced")).To(Equal("f"), "left behind, as the event said")
	s.Expect(s.value(east, "keeping")).To(Equal("k"), "kept")
}
