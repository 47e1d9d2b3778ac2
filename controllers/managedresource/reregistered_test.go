package managedresource_test

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// A target whose registration is deleted and created again, as a restore from a backup does, is managed as before.
func TestDriftIsCorrectedAfterTheRegistrationWasCreatedAgain(t *testing.T) {
	t.Parallel()
	const n = 8
	for how, createAgain := range map[string]func(p place){
		"in one breath": func(p place) {
			p.unregister("a")
			p.register("a", target.Kubeconfig())
		},
		// The ManagedResources are not looked at while there is no target: whatever was known of it is still known.
		"without runs in between": func(p place) {
			for i := range n {
				p.operation(fmt.Sprintf("mr-%d", i), resourcesv1alpha1.OperationWaitForState)
			}
			p.operation("empty", resourcesv1alpha1.OperationWaitForState)
			p.unregister("a")
			p.awaitTarget("a", hubv1alpha1.ConditionReady, metav1.ConditionFalse, hubv1alpha1.ReasonRegistrationGone, "still have their objects")
			p.register("a", target.Kubeconfig())
			p.fence()
			for _, mr := range p.all() {
				p.editMR(mr.Name, func(mr *resourcesv1alpha1.ManagedResource) {
					delete(mr.Annotations, resourcesv1alpha1.OperationAnnotation)
				})
			}
		},
	} {
		for _, keep := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, keepObjects %t", how, keep), func(t *testing.T) {
				t.Parallel()
				p := registered(t)
				create := func(name string, documents ...string) {
					p.content(name, documents...)
					mr := testbed.ManagedResource(p.ns, name, name)
					mr.Spec.KeepObjects = &keep
					p.inSource(mr)
				}
				create("empty")
				for i := range n {
					create(fmt.Sprintf("mr-%d", i), testbed.ConfigMap(p.ns, fmt.Sprintf("cm-%d", i), "1"))
				}
				p.awaitReady("empty")
				for i := range n {
					p.awaitReady(fmt.Sprintf("mr-%d", i))
				}

				createAgain(p)
				p.fence()
				for i := range n {
					cm := p.configMap(fmt.Sprintf("cm-%d", i))
					p.edit(target, cm, func() { cm.Data["key"] = "by hand" })
				}
				for i := range n {
					p.awaitValue(fmt.Sprintf("cm-%d", i), "1")
				}
				p.content("empty", testbed.ConfigMap(p.ns, "first", "1"))
				p.awaitValue("first", "1")
				p.awaitReady("empty")
				first := p.configMap("first")
				p.edit(target, first, func() { first.Data["key"] = "by hand" })
				p.awaitValue("first", "1")
				for i := range n {
					p.awaitReady(fmt.Sprintf("mr-%d", i))
				}
			})
		}
	}
}
