package managedresource_test

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// The manifest moves from one kind to another that the user calls the same. The object under the old kind is not
// deleted, and leaves the inventory.
func TestMR33_ObjectThatMovedToAnEquivalentKindIsNotDeleted(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		equivalences [][]metav1.GroupKind
		stays        bool
	}{
		"called the same":     {sameKinds, true},
		"not called the same": {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := registered(t)
			p.content("content", testbed.ConfigMap(p.ns, "one", "1"))
			mr := testbed.ManagedResource(p.ns, "mr", "content")
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

var sameKinds = [][]metav1.GroupKind{{{Kind: "ConfigMap"}, {Kind: "Secret"}}}

// An object that its manifest asks to release stays, also if the manifest calls its kind by another name.
func TestMR33_ObjectIsReleasedUnderAnEquivalentKind(t *testing.T) {
	t.Parallel()
	p := registered(t)
	p.content("content", testbed.ConfigMap(p.ns, "one", "1"))
	mr := testbed.ManagedResource(p.ns, "mr", "content")
	mr.Spec.Equivalences = sameKinds
	p.inSource(mr)
	p.awaitReady("mr")
	before := read(p, p.configMap("one"))
	p.content("content", `{"apiVersion":"v1","kind":"Secret","metadata":{"namespace":"`+p.ns+`","name":"one","annotations":{"resources.gardener.cloud/mode":"Ignore"}}}`)
	p.await("mr", has(ready, yes, ""), HaveField("Status.Resources", BeEmpty()))
	after := read(p, p.configMap("one"))
	p.Expect(after.UID).To(Equal(before.UID))
	p.Expect(after.Annotations).NotTo(Or(HaveKey(resourcesv1alpha1.OriginAnnotation), HaveKey(resourcesv1alpha1.DescriptionAnnotation)))
}

// movedFromExtensions has the inventory of a ManagedResource list its Deployment under the group that it had long ago,
// which no server knows any longer.
func (p place) movedFromExtensions(mr string) {
	p.t.Helper()
	p.annotateMR(mr, resourcesv1alpha1.IgnoreAnnotation, "true")
	p.await(mr, has(applied, yes, resourcesv1alpha1.ReasonManagedResourceIgnored))
	p.editInventory(mr, func(refs []resourcesv1alpha1.ObjectReference) []resourcesv1alpha1.ObjectReference {
		for i := range refs {
			refs[i].APIVersion = "extensions/v1beta1"
		}
		return refs
	})
}

func (p place) editInventory(name string, change func([]resourcesv1alpha1.ObjectReference) []resourcesv1alpha1.ObjectReference) {
	p.t.Helper()
	p.Expect(retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		mr := p.get(name)
		mr.Status.Resources = change(mr.Status.Resources)
		return source.Client.Status().Update(p.ctx, mr)
	})).To(Succeed())
}

func (p place) stopIgnoring(name string) {
	p.t.Helper()
	p.editMR(name, func(mr *resourcesv1alpha1.ManagedResource) {
		delete(mr.Annotations, resourcesv1alpha1.IgnoreAnnotation)
	})
}

// The old kind is not served, but the object is there under its new one.
func TestMR33_ObjectIsReleasedUnderItsNewKind(t *testing.T) {
	t.Parallel()
	p := registered(t)
	p.content("content", p.deploymentManifest("app", "{}"))
	p.mr("mr", "content")
	uid := func() types.UID { return read(p, p.deployment("app")).UID }
	p.awaitApplied("mr")
	before := uid()
	p.movedFromExtensions("mr")
	p.content("content", p.deploymentManifest("app", `{"resources.gardener.cloud/mode":"Ignore"}`))
	p.stopIgnoring("mr")
	p.await("mr", has(ready, yes, ""), HaveField("Status.Resources", BeEmpty()))
	after := read(p, p.deployment("app"))
	p.Expect(after.UID).To(Equal(before))
	p.Expect(after.Annotations).NotTo(Or(HaveKey(resourcesv1alpha1.OriginAnnotation), HaveKey(resourcesv1alpha1.DescriptionAnnotation)))
}

// The entry under the old kind delivers the labels and annotations of the last apply.
func TestMR33_LabelThatWasManagedUnderTheOldKindGoes(t *testing.T) {
	t.Parallel()
	p := registered(t)
	p.content("content", p.deploymentManifest("app", "{}"))
	p.mr("mr", "content")
	p.awaitApplied("mr")
	p.movedFromExtensions("mr")
	p.editInventory("mr", func(refs []resourcesv1alpha1.ObjectReference) []resourcesv1alpha1.ObjectReference {
		for i := range refs {
			refs[i].Annotations = map[string]string{"managed": "before"}
		}
		return refs
	})
	live := p.deployment("app")
	p.edit(target, live, func() { metav1.SetMetaDataAnnotation(&live.ObjectMeta, "managed", "before") })
	p.content("content", p.deploymentManifest("app", `{"new":"1"}`))
	p.stopIgnoring("mr")
	p.await("mr", has(applied, yes, resourcesv1alpha1.ReasonApplySucceeded), HaveField("Status.Resources", ConsistOf(
		SatisfyAll(HaveField("APIVersion", "apps/v1"), HaveField("UID", live.UID), HaveField("Annotations", HaveKey("new"))))))
	p.Expect(read(p, live).Annotations).To(SatisfyAll(HaveKey("new"), Not(HaveKey("managed"))))
}

// While the new kind cannot be applied, the object under the old one is still listed.
func TestMR33_ObjectWhoseNewKindFailsIsNotForgotten(t *testing.T) {
	t.Parallel()
	p := registered(t)
	p.content("content", testbed.ConfigMap(p.ns, "one", "1"))
	mr := testbed.ManagedResource(p.ns, "mr", "content")
	mr.Spec.Equivalences = [][]metav1.GroupKind{{{Kind: "ConfigMap"}, {Group: p.group(), Kind: "Plant"}}}
	p.inSource(mr)
	before := p.awaitReady("mr").Status.Resources[0]
	p.content("content", p.plant("one", `,"namespace":"`+p.ns+`"`, 1))
	for range 2 {
		after := p.await("mr", has(applied, no, resourcesv1alpha1.ReasonApplyFailed))
		p.Expect(after.Status.Resources).To(ConsistOf(before, SatisfyAll(HaveField("Kind", "Plant"), HaveField("UID", before.UID))))
		p.operation("mr", resourcesv1alpha1.OperationReconcile)
		p.await("mr", HaveField("Annotations", Not(HaveKey(resourcesv1alpha1.OperationAnnotation))))
	}
	p.deleteMR("mr")
	p.awaitGone("mr")
	p.expectAbsent(p.configMap("one"))
}

// A hub that dies after it wrote the new entry ahead leaves both in the inventory. The old one is still the same
// object.
func TestMR33_ObjectThatMovesIsNotDeletedAfterACrash(t *testing.T) {
	t.Parallel()
	p := registered(t)
	p.content("content", testbed.ConfigMap(p.ns, "one", "1"))
	mr := testbed.ManagedResource(p.ns, "mr", "content")
	mr.Spec.Equivalences = sameKinds
	p.inSource(mr)
	uid := p.awaitReady("mr").Status.Resources[0].UID
	p.annotateMR("mr", resourcesv1alpha1.IgnoreAnnotation, "true")
	p.await("mr", has(applied, yes, resourcesv1alpha1.ReasonManagedResourceIgnored))
	p.editInventory("mr", func(refs []resourcesv1alpha1.ObjectReference) []resourcesv1alpha1.ObjectReference {
		moved := refs[0]
		moved.Kind = "Secret"
		return append(refs, moved)
	})
	p.content("content", `{"apiVersion":"v1","kind":"Secret","metadata":{"namespace":"`+p.ns+`","name":"one"}}`)
	p.stopIgnoring("mr")
	p.await("mr", HaveField("Status.Resources", ConsistOf(HaveField("Kind", "Secret"))), has(ready, yes, ""))
	p.Expect(read(p, p.configMap("one")).UID).To(Equal(uid))
}
