package managedresource_test

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/trellis-hub/trellis/hack/hubtest"
)

// The manifest moves from one kind to another that the user calls the same. The object under the old kind is not deleted,
// and leaves the inventory.
func TestMR33_ObjectThatMovedToAnEquivalentKindIsNotDeleted(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		equivalences [][]metav1.GroupKind
		stays        bool
	}{
		"called the same":     {[][]metav1.GroupKind{{{Kind: "ConfigMap"}, {Kind: "Secret"}}}, true},
		"not called the same": {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := registered(t)
			p.content("content", hubtest.ConfigMap(p.ns, "one", "1"))
			mr := hubtest.ManagedResource(p.ns, "mr", "content")
			mr.Spec.Equivalences = c.equivalences
			p.inSource(mr)
			p.awaitReady("mr")
			before := read(p, p.configMap("one"))
			p.content("content", `{"apiVersion":"v1","kind":"Secret","metadata":{"namespace":"`+p.ns+`","name":"one"}}`)
			p.await("mr", HaveField("Status.Resources", ConsistOf(HaveField("Kind", "Secret"))), has(ready, yes, ""))
			if !c.stays {
				p.expectAbsent(p.configMap("one"))
				return
			}
			p.Expect(read(p, p.configMap("one")).UID).To(Equal(before.UID))
			p.fence()
			p.Expect(read(p, p.configMap("one")).UID).To(Equal(before.UID))
		})
	}
}
