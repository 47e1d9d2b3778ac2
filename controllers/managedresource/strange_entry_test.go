package managedresource_test

import (
	"testing"

	. "github.com/onsi/gomega"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// An inventory is a status, and any client with the right to may write it. Entries that are no objects stop nothing.
func TestInventoryEntriesThatAreNoObjectsStopNothing(t *testing.T) {
	t.Parallel()
	for name, strange := range map[string]func(ref *resourcesv1alpha1.ObjectReference){
		"without anything":  func(*resourcesv1alpha1.ObjectReference) {},
		"without a kind":    func(ref *resourcesv1alpha1.ObjectReference) { ref.APIVersion, ref.Name = "v1", "nothing" },
		"without a version": func(ref *resourcesv1alpha1.ObjectReference) { ref.Kind, ref.Name = "ConfigMap", "nothing" },
		"with a version that is none": func(ref *resourcesv1alpha1.ObjectReference) {
			ref.APIVersion, ref.Kind, ref.Name = "a/b/c", "ConfigMap", "nothing"
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := registered(t)
			p.content("content", testbed.ConfigMap(p.ns, "one", "1"))
			p.mr("mr", "content")
			p.awaitReady("mr")
			add := func() {
				ref := resourcesv1alpha1.ObjectReference{}
				strange(&ref)
				p.Eventually(func() error {
					mr := p.get("mr")
					mr.Status.Resources = append(mr.Status.Resources, ref)
					return source.Client.Status().Update(p.ctx, mr)
				}).Should(Succeed())
			}
			add()
			p.content("content", testbed.ConfigMap(p.ns, "one", "2"))
			p.await("mr", has(ready, yes, ""), HaveField("Status.Resources", ConsistOf(HaveField("Name", "one"))))
			p.awaitValue("one", "2")

			add()
			p.deleteMR("mr")
			p.awaitGone("mr")
			p.expectAbsent(p.configMap("one"))
		})
	}
}
