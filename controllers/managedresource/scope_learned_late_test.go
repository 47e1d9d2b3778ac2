package managedresource_test

import (
	"net/http"
	"testing"

	. "github.com/onsi/gomega"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/hack/controlplane"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// An object of a kind that is not known gets a namespace, as most objects have one. If the kind turns out to have none
// while the object is about to be applied, the object must not be taken for two.
func TestBUG14_ObjectWhoseScopeIsLearnedWhileItIsAppliedIsNotReplaced(t *testing.T) {
	t.Parallel()
	for name, define := range map[string]func(p place){
		"by another client": func(p place) { p.inTarget(p.object(p.crd("Cluster"))) },
		"by another ManagedResource": func(p place) {
			p.content("definition", p.crd("Cluster"))
			p.mr("definition", "definition")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := registered(t)
			h := p.holdConfigMaps(target, 0)
			p.content("content", testbed.ConfigMap(p.ns, "first", "1"), p.plant(p.ns, "", 1))
			p.mr("mr", "content")
			p.awaitHeld(h, 1) // planned, and not at the Plant yet
			define(p)
			p.Eventually(func() []string {
				return p.requests(target, func(e controlplane.AuditEntry) bool { return e.APIGroup == p.group() && e.Code == http.StatusOK })
			}).ShouldNot(BeEmpty(), "the hub watches the kind, so it knows it")
			h.release()

			isPlant := HaveField("Kind", "Plant")
			mr := p.awaitReady("mr")
			p.Expect(mr.Status.Resources).To(ContainElement(SatisfyAll(isPlant, HaveField("Namespace", BeEmpty()))))
			p.Expect(mr.Status.Resources).NotTo(ContainElement(SatisfyAll(isPlant, HaveField("Namespace", Not(BeEmpty())))))
			uid := read(p, p.livePlant(p.ns, "")).GetUID()

			p.operation("mr", resourcesv1alpha1.OperationReconcile)
			p.await("mr", HaveField("Annotations", Not(HaveKey(resourcesv1alpha1.OperationAnnotation))))
			p.content("content", testbed.ConfigMap(p.ns, "first", "2"), p.plant(p.ns, "", 2))
			p.awaitValue("first", "2")
			p.awaitReady("mr")
			p.Eventually(func() int64 { return height(read(p, p.livePlant(p.ns, ""))) }).Should(Equal(int64(2)))
			p.Expect(read(p, p.livePlant(p.ns, "")).GetUID()).To(Equal(uid))
			p.Expect(p.requests(target, func(e controlplane.AuditEntry) bool {
				return e.APIGroup == p.group() && (e.Verb == "delete" || e.Verb == "deletecollection")
			})).To(BeEmpty(), "requests to delete it")
		})
	}
}
