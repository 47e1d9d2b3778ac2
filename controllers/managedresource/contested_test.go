package managedresource_test

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// A writer that changes an object back each time is named, and the hub does not race with it.
func TestFightOverAnObjectIsNamed(t *testing.T) {
	t.Parallel()
	p := registered(t)
	p.content("content", testbed.ConfigMap(p.ns, "one", "1"), testbed.ConfigMap(p.ns, "two", "1"))
	p.mr("mr", "content")
	p.awaitReady("mr")
	for i := range 5 {
		p.Expect(resourcesv1alpha1.GetCondition(p.get("mr").Status.Conditions, resourcesv1alpha1.ConditionContested)).To(BeNil())
		cm := p.configMap("one")
		p.Expect(target.Client.Get(p.ctx, client.ObjectKeyFromObject(cm), cm)).To(Succeed())
		cm.Data["key"] = fmt.Sprintf("by hand %d", i)
		p.Expect(target.Client.Update(p.ctx, cm, client.FieldOwner("rival"))).To(Succeed())
		p.awaitValue("one", "1")
	}
	p.await("mr", has(resourcesv1alpha1.ConditionContested, yes, resourcesv1alpha1.ReasonObjectsContested, "one is changed again and again by rival", "data.key"),
		has(ready, yes, ""), has(applied, yes, ""))
	c := resourcesv1alpha1.GetCondition(p.get("mr").Status.Conditions, resourcesv1alpha1.ConditionContested)
	p.Expect(c.Message).NotTo(ContainSubstring(p.ns + "/two"))
}
