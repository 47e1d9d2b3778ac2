package apply_test

import (
	"encoding/json"
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-hub/trellis/engine/ownership"
)

// creators write an object the way other tools do.
var creators = map[string]func(g *WithT, t *testing.T, obj *unstructured.Unstructured){
	"created by a resource manager": func(g *WithT, t *testing.T, obj *unstructured.Unstructured) {
		g.Expect(cluster.Client.Create(t.Context(), obj, client.FieldOwner("gardener-resource-manager"))).To(Succeed())
	},
	"created and updated by a resource manager": func(g *WithT, t *testing.T, obj *unstructured.Unstructured) {
		full := obj.DeepCopy()
		first := obj.DeepCopy()
		first.SetLabels(map[string]string{"early": "1"})
		g.Expect(cluster.Client.Create(t.Context(), first, client.FieldOwner("gardener-resource-manager"))).To(Succeed())
		full.SetResourceVersion(first.GetResourceVersion())
		g.Expect(cluster.Client.Update(t.Context(), full, client.FieldOwner("gardener-resource-manager"))).To(Succeed())
	},
	"created by kubectl apply": func(g *WithT, t *testing.T, obj *unstructured.Unstructured) {
		last, err := json.Marshal(obj.Object)
		g.Expect(err).NotTo(HaveOccurred())
		annotations := obj.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations["kubectl.kubernetes.io/last-applied-configuration"] = string(last)
		obj.SetAnnotations(annotations)
		g.Expect(cluster.Client.Create(t.Context(), obj, client.FieldOwner("kubectl-client-side-apply"))).To(Succeed())
	},
	"created by kubectl apply --server-side": func(g *WithT, t *testing.T, obj *unstructured.Unstructured) {
		raw, err := json.Marshal(obj.Object)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(cluster.Client.Patch(t.Context(), obj, client.RawPatch(types.ApplyPatchType, raw), client.FieldOwner("kubectl"))).To(Succeed())
	},
}

func gadget(ns string) string {
	return "apiVersion: adoption.example.com/v1\nkind: Gadget\nmetadata: {namespace: " + ns + ", name: g}\nspec: {size: 3, parts: [{name: a}]}\n"
}

func defineGadgets(t *testing.T) {
	t.Helper()
	crd := manifest(t, `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gadgets.adoption.example.com}
spec:
  group: adoption.example.com
  names: {kind: Gadget, listKind: GadgetList, plural: gadgets, singular: gadget}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, x-kubernetes-preserve-unknown-fields: true}}}}
`)
	first := manifest(t, gadget(namespace(t)))
	for _, out := range applier.Run(t.Context(), access, prepare(t, crd, first), nil) {
		NewWithT(t).Expect(out.Err).NotTo(HaveOccurred())
	}
}

func TestAdoptionChangesOwnershipOnly(t *testing.T) {
	defineGadgets(t)
	for kind, text := range map[string]func(ns string) string{
		"a Deployment":      func(ns string) string { return fmt.Sprintf(deployment, ns) },
		"a StatefulSet":     func(ns string) string { return statefulSet(ns, "", "one") },
		"a Service":         func(ns string) string { return serviceWith(ns, "type: NodePort,", "{name: http, port: 80}") },
		"a custom resource": gadget,
		"a ConfigMap":       func(ns string) string { return configMap(ns, "a", "1") },
		"a preserving thing": func(ns string) string {
			return deploymentWith(ns, keepReplicas+", "+keepResources, "replicas: 2", "resources: {requests: {cpu: 10m}}")
		},
	} {
		for by, create := range creators {
			t.Run(kind+", "+by, func(t *testing.T) {
				g := NewWithT(t)
				ns := namespace(t)
				obj := prepare(t, manifest(t, text(ns)))[0].Object.DeepCopy()
				create(g, t, obj)
				before := live(t, obj)
				out := run1(t, text(ns))
				g.Expect(out.Err).NotTo(HaveOccurred())
				after := live(t, obj)
				g.Expect(after.GetUID()).To(Equal(before.GetUID()))
				g.Expect(after.GetGeneration()).To(Equal(before.GetGeneration()))
				payload := func(o *unstructured.Unstructured) []any { return []any{o.Object["spec"], o.Object["data"]} }
				g.Expect(payload(after)).To(Equal(payload(before)))
				again := run1(t, text(ns))
				g.Expect(again.TakenBack).To(BeEmpty())
				g.Expect(again.ResourceVersion).To(Equal(out.ResourceVersion))
				g.Expect(again.State).To(Equal(out.State))
			})
		}
	}
}

func TestForeignPayloadOfCustomResourcesIsTakenBack(t *testing.T) {
	defineGadgets(t)
	for name, write := range map[string]func(g *WithT, t *testing.T, obj *unstructured.Unstructured){
		"by update": func(g *WithT, t *testing.T, obj *unstructured.Unstructured) {
			g.Expect(unstructured.SetNestedField(obj.Object, "x", "spec", "theirs")).To(Succeed())
			g.Expect(cluster.Client.Update(t.Context(), obj, client.FieldOwner("someone"))).To(Succeed())
		},
		"by merge patch": func(_ *WithT, t *testing.T, obj *unstructured.Unstructured) {
			change(t, obj, "someone", `{"spec":{"theirs":"x","size":4}}`)
		},
		"by server-side apply": func(g *WithT, t *testing.T, obj *unstructured.Unstructured) {
			patch := fmt.Sprintf(`{"apiVersion":"adoption.example.com/v1","kind":"Gadget","metadata":{"namespace":%q,"name":"g"},"spec":{"theirs":{"deep":"x"}}}`, obj.GetNamespace())
			g.Expect(cluster.Client.Patch(t.Context(), obj.DeepCopy(), client.RawPatch(types.ApplyPatchType, []byte(patch)), client.FieldOwner("someone"))).To(Succeed())
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			text := gadget(namespace(t))
			before := run1(t, text)
			g.Expect(before.Err).NotTo(HaveOccurred())
			obj := live(t, manifest(t, text))
			was := owned(t, obj)
			write(g, t, obj)
			out := run1(t, text)
			g.Expect(out.Err).NotTo(HaveOccurred())
			g.Expect(out.TakenBack).NotTo(BeEmpty())
			g.Expect(owned(t, obj)).To(Equal(was))
			g.Expect(out.State).To(Equal(ownership.Observe(live(t, obj), applier.FieldManager)))
			g.Expect(live(t, obj).Object["spec"]).To(Equal(map[string]any{"size": int64(3), "parts": []any{map[string]any{"name": "a"}}}))
		})
	}
}

// An object that is to be ignored from now on keeps all but its description, which would not be true any longer.
func TestIgnoringAnObjectTakesItsDescription(t *testing.T) {
	g := NewWithT(t)
	ns := namespace(t)
	first := run1(t, configMap(ns, "a", "1"))
	g.Expect(first.Err).NotTo(HaveOccurred())
	ignored := "apiVersion: v1\nkind: ConfigMap\nmetadata: {namespace: " + ns + ", name: a, annotations: {resources.gardener.cloud/ignore: \"true\"}}\ndata: {key: other}\n"
	out := run1(t, ignored)
	g.Expect(out.Err).NotTo(HaveOccurred())
	g.Expect(out.UID).To(Equal(first.UID))
	obj := live(t, manifest(t, ignored))
	g.Expect(obj.GetResourceVersion()).To(Equal(out.ResourceVersion))
	g.Expect(obj.GetAnnotations()).To(Equal(map[string]string{"resources.gardener.cloud/origin": "ns/mr"}))
	g.Expect(obj.GetLabels()).To(HaveKey("resources.gardener.cloud/managed-by"))
	g.Expect(obj.Object["data"]).To(Equal(map[string]any{"key": "1"}))
	g.Expect(run1(t, ignored).ResourceVersion).To(Equal(out.ResourceVersion))
}
