package managedresource_test

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-hub/trellis/hack/testbed"
)

// group is an API group of the test's own.
func (p place) group() string { return p.ns + ".trellis.test" }

func (p place) crd(scope string) string {
	return fmt.Sprintf(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"plants.%[1]s"},
"spec":{"group":%[1]q,"scope":%[2]q,"names":{"kind":"Plant","listKind":"PlantList","plural":"plants","singular":"plant"},
"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","properties":{"height":{"type":"integer"}}}}}}}]}}`, p.group(), scope)
}

func (p place) plant(name, namespace string, height int) string {
	return fmt.Sprintf(`{"apiVersion":"%s/v1","kind":"Plant","metadata":{"name":%q%s},"spec":{"height":%d}}`, p.group(), name, namespace, height)
}

func (p place) livePlant(name, namespace string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(schema.GroupVersionKind{Group: p.group(), Version: "v1", Kind: "Plant"})
	u.SetNamespace(namespace)
	u.SetName(name)
	return u
}

func (p place) liveCRD() *apiextensionsv1.CustomResourceDefinition {
	return &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "plants." + p.group()}}
}

func height(u *unstructured.Unstructured) int64 {
	h, _, _ := unstructured.NestedInt64(u.Object, "spec", "height")
	return h
}

func TestX09_DefinitionAndInstanceInOneManagedResource(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ scope, manifestNamespace, liveNamespace string }{
		"namespaced":                        {scope: "Namespaced", manifestNamespace: "own", liveNamespace: "own"},
		"namespaced, but without namespace": {scope: "Namespaced", liveNamespace: "default"},
		"cluster-scoped":                    {scope: "Cluster"},
		"cluster-scoped, with a namespace":  {scope: "Cluster", manifestNamespace: "own"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := registered(t)
			in, live := "", test.liveNamespace
			if test.manifestNamespace != "" {
				in = fmt.Sprintf(`,"namespace":%q`, p.ns)
			}
			if live == "own" {
				live = p.ns
			}
			p.content("content", p.plant("rose", in, 1), p.crd(test.scope))
			p.mr("mr", "content")
			mr := p.awaitReady("mr")
			p.Expect(height(read(p, p.livePlant("rose", live)))).To(Equal(int64(1)))
			p.Expect(mr.Status.Resources).To(ContainElement(SatisfyAll(HaveField("Kind", "Plant"), HaveField("Namespace", live))))

			rose := p.livePlant("rose", live)
			p.edit(target, rose, func() { p.Expect(unstructured.SetNestedField(rose.Object, int64(7), "spec", "height")).To(Succeed()) })
			p.Eventually(func() int64 { return height(read(p, p.livePlant("rose", live))) }).Should(Equal(int64(1)), func() string { return hub.Log.About(p.ns) })

			p.content("content", p.crd(test.scope))
			p.awaitAbsent(p.livePlant("rose", live))
			p.awaitReady("mr")
			p.content("content", p.crd(test.scope), p.plant("lily", in, 2))
			p.await("mr", has(ready, yes, ""), HaveField("Status.Resources", ContainElement(HaveField("Name", "lily"))))
			p.Expect(height(read(p, p.livePlant("lily", live)))).To(Equal(int64(2)))

			p.deleteMR("mr")
			p.awaitGone("mr")
			p.expectAbsent(p.liveCRD())
		})
	}
}

// Instances are deleted while their definition still exists: the controllers that remove their finalizers need it.
func TestX09_InstancesGoBeforeTheirDefinition(t *testing.T) {
	t.Parallel()
	p := registered(t)
	p.content("content", p.crd("Cluster"), p.plant("rose", `,"finalizers":["`+blocker+`"]`, 1),
		testbed.ConfigMap(p.ns, "one", "1"))
	p.mr("mr", "content")
	p.awaitReady("mr")
	p.deleteMR("mr")
	p.await("mr", has(applied, ongoing, "", "rose", blocker))
	p.Expect(read(p, p.liveCRD()).DeletionTimestamp).To(BeNil())
	p.Expect(target.Client.Patch(p.ctx, p.livePlant("rose", ""), client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`)))).To(Succeed())
	p.awaitGone("mr")
	p.expectAbsent(p.liveCRD())
}

// The definition comes by other means after the instance was wanted: that is noticed without any change of the content.
func TestUnknownKindIsAppliedOnceItIsKnown(t *testing.T) {
	t.Parallel()
	p := registered(t)
	p.content("content", p.plant("rose", "", 1), testbed.ConfigMap(p.ns, "one", "1"))
	p.mr("mr", "content")
	p.await("mr", has(applied, no, "", "Plant"))
	p.awaitValue("one", "1")
	p.content("crd", p.crd("Cluster"))
	p.mr("crd", "crd")
	p.awaitReady("crd")
	p.awaitReady("mr")
	p.Expect(height(read(p, p.livePlant("rose", "")))).To(Equal(int64(1)))
}
