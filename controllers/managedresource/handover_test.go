package managedresource_test

import (
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/utils/ptr"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/hack/testbed"
)

const foreignFinalizer = resourcesv1alpha1.FinalizerBase + "-test"

func TestMR11_ManagedResourceOfAnotherClassIsNotTouched(t *testing.T) {
	t.Parallel()
	p := registered(t)
	p.content("content", testbed.ConfigMap(p.ns, "one", "1"))
	mr := testbed.ManagedResource(p.ns, "mr", "content")
	mr.Spec.Class = ptr.To("other")
	p.inSource(mr)
	p.fence()
	p.content("content", testbed.ConfigMap(p.ns, "one", "2"))
	p.fence()
	p.Expect(p.get("mr")).To(Equal(mr))
	p.expectAbsent(p.configMap("one"))
}

func TestMR12_MR13_HandoverWaitsForTheOtherInstance(t *testing.T) {
	t.Parallel()
	p := registered(t)
	p.content("content", testbed.ConfigMap(p.ns, "one", "1"))
	mr := testbed.ManagedResource(p.ns, "mr", "content")
	mr.Spec.Class = ptr.To("test")
	mr.Finalizers = []string{foreignFinalizer}
	p.inSource(mr)
	p.fence()
	p.Expect(p.get("mr")).To(Equal(mr))

	p.editMR("mr", func(mr *resourcesv1alpha1.ManagedResource) { mr.Spec.Class = nil })
	p.fence()
	p.Expect(p.get("mr").Finalizers).To(ConsistOf(foreignFinalizer))
	p.expectAbsent(p.configMap("one"))

	p.editMR("mr", func(mr *resourcesv1alpha1.ManagedResource) { mr.Finalizers = nil })
	p.Expect(p.awaitReady("mr").Finalizers).To(ConsistOf(resourcesv1alpha1.FinalizerBase))
	p.awaitValue("one", "1")
}

// The other direction: what goes to an instance of another class is cleaned up here first, and nothing is left for the
// other one to misread (BUG-8).
func TestMR34_HandoverToAnotherClassCleansUp(t *testing.T) {
	t.Parallel()
	p := registered(t)
	p.content("content", testbed.ConfigMap(p.ns, "one", "1"))
	p.mr("mr", "content")
	p.awaitReady("mr")

	p.editMR("mr", func(mr *resourcesv1alpha1.ManagedResource) { mr.Spec.Class = ptr.To("other") })
	p.await("mr", HaveField("Finalizers", BeEmpty()), HaveField("Status.Resources", BeEmpty()), HaveField("Annotations", BeEmpty()))
	p.expectAbsent(p.configMap("one"))

	p.editMR("mr", func(mr *resourcesv1alpha1.ManagedResource) {
		mr.Spec.Class = ptr.To(resourcesv1alpha1.DefaultClassName)
	})
	p.awaitReady("mr")
	p.awaitValue("one", "1")
}
