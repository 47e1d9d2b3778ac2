package managedresource_test

import (
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/client-go/util/retry"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/hack/controlplane"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// If another client writes that a ManagedResource is not healthy, the hub checks and corrects the condition.
func TestMR35_UnhealthyManagedResourceIsLookedAt(t *testing.T) {
	t.Parallel()
	p := registered(t)
	p.content("content", testbed.ConfigMap(p.ns, "one", "1"))
	p.mr("mr", "content")
	p.awaitReady("mr")
	p.fence()
	asked := func() []string {
		return p.requests(target, func(e controlplane.AuditEntry) bool { return p.inNamespace(e) && e.Name == "one" })
	}
	before := asked()
	for range 3 { // a look may be due anyway, but not so many
		p.Expect(retry.RetryOnConflict(retry.DefaultBackoff, func() error {
			mr := p.get("mr")
			for i := range mr.Status.Conditions {
				if mr.Status.Conditions[i].Type == healthy {
					mr.Status.Conditions[i].Status = no
				}
			}
			return source.Client.Status().Update(p.ctx, mr)
		})).To(Succeed())
		p.await("mr", has(healthy, yes, resourcesv1alpha1.ReasonResourcesHealthy), has(ready, yes, ""))
	}
	p.Expect(asked()).To(Equal(before), "the watches show that nothing is wrong")
}
