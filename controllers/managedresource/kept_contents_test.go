package managedresource_test

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// keepingPlant is the manifest of a Plant that is to stay.
func (p place) keepingPlant() string {
	return p.plant("rose", `,"annotations":{"resources.gardener.cloud/keep-object":"true"}`, 1)
}

// An object that is to stay would be deleted with the definition of its kind, so that waits, and says for what.
func TestMR17_DefinitionOfAKeptObjectIsNotDeleted(t *testing.T) {
	t.Parallel()
	for name, give := range map[string]func(p place){
		"when the ManagedResource is deleted": func(p place) { p.deleteMR("mr") },
		"when both are dropped":               func(p place) { p.content("content", testbed.ConfigMap(p.ns, "one", "1")) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := registered(t)
			p.content("content", p.crd("Cluster"), p.keepingPlant())
			p.mr("mr", "content")
			p.awaitReady("mr")
			give(p)
			pending := func() {
				mr := p.await("mr", has(applied, ongoing, resourcesv1alpha1.ReasonDeletionPending, "plants."+p.group(), "waits for Plant."+p.group()+" rose", resourcesv1alpha1.KeepObjectAnnotation))
				p.Expect(mr.Status.Resources).To(ContainElements(HaveField("Kind", "CustomResourceDefinition"), HaveField("Kind", "Plant")))
			}
			pending()
			p.annotateMR("mr", "test.trellis/touch", "1") // and again
			p.fence()
			pending()
			p.Expect(read(p, p.liveCRD()).DeletionTimestamp).To(BeNil())
			p.Expect(read(p, p.livePlant("rose", "")).GetDeletionTimestamp()).To(BeNil())

			p.Expect(target.Client.Patch(p.ctx, p.livePlant("rose", ""), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"resources.gardener.cloud/keep-object":null}}}`)))).To(Succeed())
			p.awaitAbsent(p.liveCRD())
		})
	}
}

func TestMR17_NamespaceOfAKeptObjectIsNotDeleted(t *testing.T) {
	t.Parallel()
	p := registered(t)
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: p.ns + "-own"}}
	p.content("content", `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"`+ns.Name+`"}}`,
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"`+ns.Name+`","name":"kept","annotations":{"resources.gardener.cloud/keep-object":"true"}}}`, testbed.ConfigMap(ns.Name, "one", "1"))
	p.mr("mr", "content")
	p.awaitReady("mr")
	p.deleteMR("mr")
	p.await("mr", has(applied, ongoing, resourcesv1alpha1.ReasonDeletionPending, "waits for ConfigMap "+ns.Name+"/kept", resourcesv1alpha1.KeepObjectAnnotation+"=true"))
	p.expectAbsent(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: "one"}})
	p.Expect(read(p, ns).DeletionTimestamp).To(BeNil())

	// What the message says: the namespace is kept, too.
	p.edit(target, ns, func() { metav1.SetMetaDataAnnotation(&ns.ObjectMeta, resourcesv1alpha1.KeepObjectAnnotation, "true") })
	p.awaitGone("mr")
	p.Expect(read(p, ns).DeletionTimestamp).To(BeNil())
	p.Expect(read(p, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: "kept"}}).DeletionTimestamp).To(BeNil())
}

// The object is released and the definition of its kind dropped with one change.
func TestMR14_DefinitionOfAReleasedObjectIsNotDeleted(t *testing.T) {
	t.Parallel()
	p := registered(t)
	p.content("content", p.crd("Cluster"), p.plant("rose", "", 1))
	p.mr("mr", "content")
	p.awaitReady("mr")
	p.content("content", p.plant("rose", `,"annotations":{"resources.gardener.cloud/mode":"Ignore"}`, 1))
	p.await("mr", has(applied, ongoing, resourcesv1alpha1.ReasonDeletionPending, "waits for Plant."+p.group()+" rose", resourcesv1alpha1.ModeAnnotation),
		HaveField("Status.Resources", ConsistOf(HaveField("Kind", "CustomResourceDefinition"))))
	p.Eventually(func() map[string]string { return read(p, p.livePlant("rose", "")).GetAnnotations() }).ShouldNot(HaveKey(resourcesv1alpha1.OriginAnnotation))
	p.annotateMR("mr", "test.trellis/touch", "1")
	p.fence()
	p.Expect(read(p, p.liveCRD()).DeletionTimestamp).To(BeNil())

	p.content("content", testbed.ConfigMap(p.ns, "one", "1")) // no manifest has it any longer
	p.awaitAbsent(p.liveCRD())
	p.awaitReady("mr")
}
