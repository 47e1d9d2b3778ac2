package managedresource_test

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// sharedWithIgnored has the ConfigMap "one" in two ManagedResources, of which "ignored" is not run any longer.
func sharedWithIgnored(t *testing.T) place {
	t.Helper()
	p := registered(t)
	p.content("ignored", testbed.ConfigMap(p.ns, "one", "1"))
	p.mr("ignored", "ignored")
	p.awaitReady("ignored")
	p.annotateMR("ignored", resourcesv1alpha1.IgnoreAnnotation, "true")
	p.await("ignored", has(applied, yes, resourcesv1alpha1.ReasonManagedResourceIgnored))
	p.content("run", testbed.ConfigMap(p.ns, "one", "1"), testbed.ConfigMap(p.ns, "two", "1"))
	p.mr("run", "run")
	p.awaitReady("run")
	return p
}

// An ignored ManagedResource is not run, but what it lists is still its own.
func TestObjectThatAnIgnoredManagedResourceListsIsNotDeleted(t *testing.T) {
	t.Parallel()
	for name, give := range map[string]func(p place){
		"the other one drops it": func(p place) {
			p.content("run", testbed.ConfigMap(p.ns, "two", "2"))
			p.await("run", has(ready, yes, ""), HaveField("Status.Resources", ConsistOf(HaveField("Name", "two"))))
		},
		"the other one is deleted": func(p place) { p.deleteMR("run"); p.awaitGone("run") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := sharedWithIgnored(t)
			uid := read(p, p.configMap("one")).UID
			give(p)
			p.fence()
			live := read(p, p.configMap("one"))
			p.Expect(live.UID).To(Equal(uid))
			p.Expect(live.DeletionTimestamp).To(BeNil())

			// The last one that lists it takes it along.
			p.deleteMR("ignored")
			p.awaitGone("ignored")
			p.expectAbsent(p.configMap("one"))
		})
	}
}

// Each of the two must not leave the object to the other one.
func TestObjectOfTwoManagedResourcesThatAreDeletedAtOnceIsDeleted(t *testing.T) {
	t.Parallel()
	p := sharedWithIgnored(t)
	p.awaitTarget("a", hubv1alpha1.ConditionConnected, metav1.ConditionTrue, hubv1alpha1.ReasonConnected)
	tc := p.targetCluster("a")
	p.edit(source, tc, func() { tc.Spec.Paused = true })
	p.awaitTarget("a", hubv1alpha1.ConditionReady, metav1.ConditionFalse, hubv1alpha1.ReasonPaused)
	p.deleteMR("ignored")
	p.deleteMR("run")
	p.edit(source, tc, func() { tc.Spec.Paused = false })
	p.awaitGone("ignored")
	p.awaitGone("run")
	p.expectAbsent(p.configMap("one"))
	p.expectAbsent(p.configMap("two"))
}

// One that keeps its objects when it goes still wants them while the other one goes.
func TestObjectThatIsKeptByOneOfTwoManagedResourcesStays(t *testing.T) {
	t.Parallel()
	p := sharedWithIgnored(t)
	p.editMR("ignored", func(mr *resourcesv1alpha1.ManagedResource) { mr.Spec.KeepObjects = new(true) })
	uid := read(p, p.configMap("one")).UID
	p.deleteMR("run")
	p.awaitGone("run")
	p.deleteMR("ignored")
	p.awaitGone("ignored")
	p.Expect(read(p, p.configMap("one")).UID).To(Equal(uid))
}
