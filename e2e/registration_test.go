package e2e

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/hack/testbed"
)

func TestRemovedRegistrationReleasesWhatIsInTheTarget(t *testing.T) {
	s := newSpace(t, nil)
	s.startHub()
	s.register("target", east)
	s.manage("mr", s.configMap("one", "1"), s.configMap("two", "2"))
	s.eventuallyReady("mr")
	s.Eventually(func() string { return s.targetCondition("target") }).Should(HavePrefix("True/"))
	one, two := s.uid(east, "one"), s.uid(east, "two")

	asked := listen(s.WithT, east)
	s.unregister("target")
	s.eventuallyCondition("mr", ready, "False/TargetNotFound")
	s.Eventually(func() string { return s.targetCondition("target") }).Should(Equal("False/RegistrationGone"))
	s.Expect(s.mr("mr").Status.Resources).To(HaveLen(2), "it is remembered what is there")
	s.edit(east, "one", "changed meanwhile")
	s.Consistently(func() string { return s.value(east, "one") }, 3*time.Second).Should(Equal("changed meanwhile"))
	s.Expect(texts(without(asked(), isConnectionCheck, isRead))).To(BeEmpty())

	asked = listen(s.WithT, east)
	s.register("target", east)
	s.eventuallyReady("mr")
	s.eventuallyValue(east, "one", "1")
	s.Expect(s.uid(east, "one")).To(Equal(one))
	s.Expect(s.uid(east, "two")).To(Equal(two))
	for _, e := range asked() {
		s.Expect(e.Verb).NotTo(BeElementOf("delete", "deletecollection"), e.String())
	}

	s.unregister("target")
	s.eventuallyCondition("mr", ready, "False/TargetNotFound")
	s.Eventually(func() string { return s.targetReady("target").Message }).Should(ContainSubstring("still have their objects"), "the connection is gone")
	s.deleteMR("mr")
	s.eventuallyGone("mr")
	s.eventuallyEvent("mr", "ObjectsReleased", "2 objects stay behind")
	s.eventuallyTargetGone("target") // no ManagedResource needs it any longer
	s.Expect(s.uid(east, "one")).To(Equal(one))
	s.Expect(s.uid(east, "two")).To(Equal(two))
}

func TestManagedResourceThatGoesWithItsRegistrationIsCleanedUp(t *testing.T) {
	for _, order := range []string{"ManagedResource first", "registration first"} {
		t.Run(order, func(t *testing.T) {
			s := newSpace(t, nil)
			s.startHub()
			s.register("target", east)
			s.manage("mr", s.configMap("one", "1"), s.configMap("two", "2"))
			s.eventuallyReady("mr")
			s.Eventually(func() string { return s.targetCondition("target") }).Should(HavePrefix("True/"))
			if order == "registration first" {
				s.unregister("target")
				s.deleteMR("mr")
			} else {
				s.deleteMR("mr")
				s.unregister("target")
			}
			s.eventuallyGone("mr")
			s.Expect(s.value(east, "one")).To(BeEmpty())
			s.Expect(s.value(east, "two")).To(BeEmpty())
			s.eventuallyTargetGone("target")
		})
	}
}

func TestTargetThatWasConfirmedToBeAnother(t *testing.T) {
	s := newSpace(t, nil)
	s.startHub()
	s.register("target", east)
	s.manage("mr", s.configMap("one", "1"), s.configMap("two", "2"))
	s.manage("deleted", s.configMap("deleted", "d"))
	// Objects that were in the other cluster before have the same names, and are not the hub's.
	theirs := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.name, Name: "deleted"},
		Data: map[string]string{"key": "of another client"}}
	s.Expect(west.Client.Create(s.ctx, theirs)).To(Succeed())
	s.eventuallyReady("mr", "deleted")

	asked := listen(s.WithT, west)
	s.Expect(source.Client.Update(s.ctx, testbed.Registration(s.name, "target", west.Kubeconfig()))).To(Succeed())
	s.Eventually(func() string { return s.targetCondition("target") }).Should(Equal("False/IdentityChanged"))
	s.eventuallyCondition("mr", ready, "Unknown/IdentityChanged")
	s.Expect(s.condition("mr", applied)).To(Equal("True/ApplySucceeded"))
	s.deleteMR("deleted")
	s.eventuallyCondition("deleted", applied, "Progressing/DeletionPending")
	s.manage("new", s.configMap("new", "n"))
	s.eventuallyCondition("new", ready, "Unknown/IdentityChanged")
	s.Consistently(func() []string { return texts(without(asked(), isConnectionCheck)) }, 3*time.Second).Should(BeEmpty())
	s.Expect(s.mr("deleted").Finalizers).NotTo(BeEmpty())
	s.Expect(s.value(east, "one")).To(Equal("1"))
	s.Expect(s.value(east, "deleted")).To(Equal("d"))

	uid := clusterUID(s, west)
	s.Expect(source.Client.Patch(s.ctx, testbed.Registration(s.name, "target", nil), client.RawPatch(types.MergePatchType,
		[]byte(`{"metadata":{"annotations":{"hub.gardener.cloud/confirm-identity":"`+uid+`"}}}`)))).To(Succeed())
	s.eventuallyReady("mr", "new")
	s.Eventually(func() string { return s.targetCondition("target") }).Should(Or(Equal("True/Ready"), Equal("True/DuplicateRegistration")))
	s.Expect(s.target("target").Status.ClusterUID).To(BeEquivalentTo(uid))
	s.Expect(s.value(west, "one")).To(Equal("1"))
	s.Expect(s.value(west, "new")).To(Equal("n"))
	s.Expect(s.mr("mr").Annotations).To(HaveKeyWithValue(hubv1alpha1.TargetUIDAnnotation, uid))
	s.eventuallyEvent("mr", "ObjectsReleased", "2 objects stay behind")
	s.Expect(s.value(east, "one")).To(Equal("1"), "nothing is deleted in a cluster that is no longer registered")

	s.eventuallyGone("deleted")
	s.Expect(s.value(west, "deleted")).To(Equal("of another client"), "it never got anything from that ManagedResource")
	for _, e := range asked() {
		s.Expect(e.Verb).NotTo(BeElementOf("delete", "deletecollection"), e.String())
	}
}

func TestManagedResourceMovesToAnotherTarget(t *testing.T) {
	s := newSpace(t, nil)
	s.startHub()
	s.register("first", east)
	s.register("second", west)
	mr := testbed.ManagedResource(s.name, "mr", "mr")
	mr.Labels = map[string]string{hubv1alpha1.ClusterNameLabel: "first"}
	s.manageWith(mr, testbed.Content(s.name, "mr", "objects.yaml", s.configMap("one", "1"), s.configMap("two", "2")))
	s.eventuallyReady("mr")
	s.Expect(s.value(west, "one")).To(BeEmpty())

	// It cannot leave as long as something holds an object, and arrives nowhere else meanwhile.
	s.hold(east, "two", true)
	inWest := listen(s.WithT, west)
	s.patchMR("mr", `{"metadata":{"labels":{"`+hubv1alpha1.ClusterNameLabel+`":"second"}}}`)
	s.eventuallyValue(east, "one", "")
	s.eventuallyCondition("mr", applied, "Progressing/DeletionPending")
	s.Consistently(func() []string { return texts(without(inWest(), isConnectionCheck, isRead)) }, 2*time.Second).Should(BeEmpty())
	s.Expect(s.mr("mr").Annotations).To(HaveKeyWithValue(hubv1alpha1.TargetUIDAnnotation, clusterUID(s, east)))

	s.hold(east, "two", false)
	s.eventuallyValue(west, "two", "2")
	s.Expect(s.value(east, "two")).To(BeEmpty())
	s.eventuallyReady("mr")
	s.Expect(s.value(west, "one")).To(Equal("1"))
	s.Expect(s.mr("mr").Annotations).To(HaveKeyWithValue(hubv1alpha1.TargetUIDAnnotation, clusterUID(s, west)))

	s.edit(west, "one", "edited after the move")
	s.eventuallyValue(west, "one", "1")
}

func TestManagedResourceThatMovesWaitsForItsOldTarget(t *testing.T) {
	s := newSpace(t, nil)
	way := newLink(t, east)
	first := s.startHub()
	s.registerBy("first", way.kubeconfig())
	s.register("second", west)
	mr := testbed.ManagedResource(s.name, "mr", "mr")
	mr.Labels = map[string]string{hubv1alpha1.ClusterNameLabel: "first"}
	s.manageWith(mr, testbed.Content(s.name, "mr", "objects.yaml", s.configMap("one", "1")))
	s.eventuallyReady("mr")
	way.setCut(true)
	s.eventuallyCondition("mr", ready, "Unknown/TargetUnreachable")
	s.patchMR("mr", `{"metadata":{"labels":{"`+hubv1alpha1.ClusterNameLabel+`":"second"}}}`)
	s.eventuallyCondition("mr", applied, "Progressing/DeletionPending")

	// A successor that never saw the old target must not take it for gone.
	s.stopHub(first)
	inWest := listen(s.WithT, west)
	s.startHub()
	s.Eventually(func() []string { return texts(inWest()) }).ShouldNot(BeEmpty(), "the successor works with the new target")
	s.Consistently(func() []string { return texts(without(inWest(), isConnectionCheck, isRead)) }, 3*time.Second).Should(BeEmpty())
	s.Expect(s.mr("mr").Status.Resources).To(HaveLen(1))

	way.setCut(false)
	s.eventuallyReady("mr")
	s.Expect(s.value(east, "one")).To(BeEmpty())
	s.Expect(s.value(west, "one")).To(Equal("1"))
}

func TestManagedResourceMovesToAnotherClass(t *testing.T) {
	s := newSpace(t, map[string]string{"seed": "true"})
	s.startHub()
	s.register("target", east)
	s.manage("mr", s.configMap("one", "1"), s.configMap("two", "2"))
	s.eventuallyReady("mr")
	s.Expect(s.value(source, "one")).To(BeEmpty())

	s.patchMR("mr", `{"spec":{"class":"seed"}}`)
	s.eventuallyValue(source, "one", "1")
	s.Expect(s.value(east, "one")).To(BeEmpty(), "the old class cleans up before the new one applies")
	s.Expect(s.value(east, "two")).To(BeEmpty())
	s.eventuallyReady("mr")
	mr := s.mr("mr")
	s.Expect(mr.Finalizers).To(ConsistOf(resourcesv1alpha1.Finalizer("seed")))
	s.Expect(mr.Annotations).To(HaveKeyWithValue(hubv1alpha1.TargetUIDAnnotation, clusterUID(s, source)))

	s.patchMR("mr", `{"spec":{"class":null}}`)
	s.eventuallyValue(east, "two", "2")
	s.Expect(s.value(source, "two")).To(BeEmpty())
	s.eventuallyReady("mr")
	s.Expect(s.mr("mr").Finalizers).To(ConsistOf(resourcesv1alpha1.Finalizer("")))
}
