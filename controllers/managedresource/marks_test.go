package managedresource_test

import (
	"testing"

	. "github.com/onsi/gomega"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// A finalizer or a mark that a client removes is written again: without the finalizer the hub would not clean up, and
// without the mark it would not know where.
func TestRemovedMarksAreRestored(t *testing.T) {
	t.Parallel()
	for name, takeOff := range map[string]func(mr *resourcesv1alpha1.ManagedResource){
		"the finalizer": func(mr *resourcesv1alpha1.ManagedResource) { mr.Finalizers = nil },
		"the UID of the target": func(mr *resourcesv1alpha1.ManagedResource) {
			delete(mr.Annotations, hubv1alpha1.TargetUIDAnnotation)
		},
		"both": func(mr *resourcesv1alpha1.ManagedResource) {
			mr.Finalizers = nil
			delete(mr.Annotations, hubv1alpha1.TargetUIDAnnotation)
		},
		"all annotations": func(mr *resourcesv1alpha1.ManagedResource) { mr.Finalizers, mr.Annotations = nil, nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := registered(t)
			p.content("content", testbed.ConfigMap(p.ns, "one", "1"))
			p.mr("mr", "content")
			before := p.await("mr", has(ready, yes, ""), HaveField("Annotations", HaveKey(hubv1alpha1.AppliedAnnotation)))
			uid := read(p, p.configMap("one")).UID

			p.editMR("mr", takeOff)
			p.await("mr", HaveField("Finalizers", Equal(before.Finalizers)),
				HaveField("Annotations", HaveKeyWithValue(hubv1alpha1.TargetUIDAnnotation, before.Annotations[hubv1alpha1.TargetUIDAnnotation])))
			p.awaitReady("mr")
			p.Expect(read(p, p.configMap("one")).UID).To(Equal(uid))

			p.deleteMR("mr")
			p.awaitGone("mr")
			p.expectAbsent(p.configMap("one"))
		})
	}
}
