package managedresource_test

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// An instance of another class cleans up its own target and leaves its inventory in the status. The content changes in
// the same step, so that the object which it lists is not in the Secret any longer; one of the same name, with the
// origin of this ManagedResource, is in our target.
func TestBUG8_X8_InventoryOfAnotherInstanceIsNotActedUpon(t *testing.T) {
	t.Parallel()
	p := registered(t)
	left := p.configMap("left")
	left.Annotations = map[string]string{resourcesv1alpha1.OriginAnnotation: p.ns + "/mr"}
	left.Labels = map[string]string{resourcesv1alpha1.ManagedByLabel: resourcesv1alpha1.ManagedByDefault}
	p.inTarget(left)

	p.content("content", testbed.ConfigMap(p.ns, "one", "1"))
	mr := testbed.ManagedResource(p.ns, "mr", "old")
	mr.Spec.Class = ptr.To("test")
	mr.Finalizers = []string{foreignFinalizer}
	p.inSource(mr)
	mr.Status.Resources = []resourcesv1alpha1.ObjectReference{{
		ObjectReference: corev1.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: p.ns, Name: "left"},
	}}
	p.Expect(source.Client.Status().Update(p.ctx, mr)).To(Succeed())

	p.editMR("mr", func(mr *resourcesv1alpha1.ManagedResource) {
		mr.Spec.Class = nil
		mr.Spec.SecretRefs[0].Name = "content"
	})
	p.fence()
	p.Expect(p.get("mr").Status.Resources).NotTo(BeEmpty(), "it is the other one's while it is at work")
	p.editMR("mr", func(mr *resourcesv1alpha1.ManagedResource) { mr.Finalizers = nil })
	got := p.awaitReady("mr")
	p.Expect(got.Status.Resources).To(ConsistOf(HaveField("Name", "one")))
	p.Expect(read(p, p.configMap("left")).UID).To(Equal(left.UID))
	p.deleteMR("mr")
	p.awaitGone("mr")
	p.Expect(read(p, p.configMap("left")).UID).To(Equal(left.UID))
}

// A Gardener resource manager of our own class has our finalizer: its inventory is taken over, and acted upon.
func TestInventoryOfAnInstanceOfTheSameClassIsTakenOver(t *testing.T) {
	t.Parallel()
	p := registered(t)
	left := p.configMap("left")
	left.Annotations = map[string]string{resourcesv1alpha1.OriginAnnotation: p.ns + "/mr"}
	p.inTarget(left)
	mr := testbed.ManagedResource(p.ns, "mr", "content")
	mr.Finalizers = []string{resourcesv1alpha1.FinalizerBase}
	p.inSource(mr) // its Secret is not there yet
	p.await("mr", has(applied, no, resourcesv1alpha1.ReasonCannotReadSecret))
	p.editInventory("mr", func([]resourcesv1alpha1.ObjectReference) []resourcesv1alpha1.ObjectReference {
		return []resourcesv1alpha1.ObjectReference{{
			ObjectReference: corev1.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: p.ns, Name: "left"},
		}}
	})
	p.content("content", testbed.ConfigMap(p.ns, "one", "1"))
	p.awaitReady("mr")
	p.awaitAbsent(left)
}
