package managedresource_test

import (
	"testing"

	. "github.com/onsi/gomega"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/hack/testbed"
)

func TestMR20_IgnoredObjectIsCreatedAndThenLeftAlone(t *testing.T) {
	t.Parallel()
	p := registered(t)
	const ignored = `{"annotations":{"resources.gardener.cloud/ignore":"true"}}`
	p.content("content", p.configMapWith("one", ignored))
	p.mr("mr", "content")
	p.awaitReady("mr")
	live := read(p, p.configMap("one"))
	p.Expect(live.Labels).To(BeEmpty())
	p.Expect(live.Annotations).To(HaveLen(1))

	p.edit(target, live, func() { live.Data["key"] = "by hand"; live.Annotations = nil })
	p.operation("mr", resourcesv1alpha1.OperationReconcile)
	p.Eventually(func() map[string]string { return p.get("mr").Annotations }).ShouldNot(HaveKey(resourcesv1alpha1.OperationAnnotation))
	p.content("content", p.configMapWith("one", ignored), testbed.ConfigMap(p.ns, "two", "2"))
	p.awaitValue("two", "2")
	p.awaitReady("mr")
	p.awaitValue("one", "by hand")

	// Once it is gone, it is created again; it goes with its ManagedResource.
	p.Expect(target.Client.Delete(p.ctx, p.configMap("one"))).To(Succeed())
	p.awaitValue("one", "1")
	p.deleteMR("mr")
	p.awaitGone("mr")
	p.expectAbsent(p.configMap("one"))
}

// The object that has the name when the ManagedResource lists it is the listed one, whichever client made it, as with
// GRM. An object that takes the name later is not.
func TestMR20_IgnoredObjectThatWasThereBefore(t *testing.T) {
	t.Parallel()
	for name, replaced := range map[string]bool{"it is the one that was listed": false, "another one took its name": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := registered(t)
			cm := p.configMap("one")
			cm.Data = map[string]string{"key": "theirs"}
			p.inTarget(cm)
			p.content("content", p.configMapWith("one", `{"annotations":{"resources.gardener.cloud/ignore":"true"}}`))
			p.mr("mr", "content")
			p.Expect(p.awaitReady("mr").Status.Resources).To(ConsistOf(HaveField("UID", cm.UID)))
			p.awaitValue("one", "theirs")
			if replaced {
				p.annotateMR("mr", resourcesv1alpha1.IgnoreAnnotation, "true")
				p.await("mr", has(applied, yes, resourcesv1alpha1.ReasonManagedResourceIgnored))
				p.Expect(target.Client.Delete(p.ctx, p.configMap("one"))).To(Succeed())
				p.inTarget(p.configMap("one"))
			}
			p.deleteMR("mr")
			p.awaitGone("mr")
			if replaced {
				p.Expect(read(p, p.configMap("one")).DeletionTimestamp).To(BeNil())
			} else {
				p.expectAbsent(p.configMap("one"))
			}
		})
	}
}

func TestMR21_IgnoredManagedResource(t *testing.T) {
	t.Parallel()
	p := registered(t)
	p.content("content", testbed.ConfigMap(p.ns, "one", "1"))
	p.mr("mr", "content")
	p.awaitReady("mr")

	p.annotateMR("mr", resourcesv1alpha1.IgnoreAnnotation, "true")
	const reason = resourcesv1alpha1.ReasonManagedResourceIgnored
	p.await("mr", has(applied, yes, reason), has(healthy, yes, reason), has(progressing, no, reason))

	cm := p.configMap("one")
	p.edit(target, cm, func() { cm.Data["key"] = "by hand" })
	p.fence()
	p.awaitValue("one", "by hand")
	p.content("content", testbed.ConfigMap(p.ns, "one", "2"))
	p.fence()
	p.awaitValue("one", "by hand")

	p.editMR("mr", func(mr *resourcesv1alpha1.ManagedResource) {
		delete(mr.Annotations, resourcesv1alpha1.IgnoreAnnotation)
	})
	p.awaitValue("one", "2")
	p.awaitReady("mr")
}

// While it was ignored, the content stayed and the object drifted: the end of the ignorance is an apply.
func TestMR21_DriftWhileIgnoredIsCorrectedAfterwards(t *testing.T) {
	t.Parallel()
	p := registered(t)
	p.content("content", testbed.ConfigMap(p.ns, "one", "1"))
	p.mr("mr", "content")
	p.awaitReady("mr")
	p.annotateMR("mr", resourcesv1alpha1.IgnoreAnnotation, "true")
	p.await("mr", has(applied, yes, resourcesv1alpha1.ReasonManagedResourceIgnored))
	cm := p.configMap("one")
	p.edit(target, cm, func() { cm.Data["key"] = "by hand" })
	p.fence()
	p.awaitValue("one", "by hand")
	p.annotateMR("mr", resourcesv1alpha1.IgnoreAnnotation, "false")
	p.awaitValue("one", "1")
	p.awaitReady("mr")
}

// wait-for-state stops everything; its end is the event (BUG-12).
func TestBUG12_WaitForStateHoldsBackUntilItIsRemoved(t *testing.T) {
	t.Parallel()
	p := registered(t)
	p.content("content", testbed.ConfigMap(p.ns, "one", "1"))
	mr := testbed.ManagedResource(p.ns, "mr", "content")
	mr.Annotations = map[string]string{resourcesv1alpha1.OperationAnnotation: resourcesv1alpha1.OperationWaitForState}
	p.inSource(mr)
	p.fence()
	p.Expect(p.get("mr")).To(Equal(mr))
	p.expectAbsent(p.configMap("one"))
	p.editMR("mr", func(mr *resourcesv1alpha1.ManagedResource) { mr.Annotations = nil })
	p.awaitReady("mr")
}
