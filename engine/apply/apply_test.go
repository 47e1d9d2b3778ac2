package apply_test

import (
	"fmt"
	"net/http"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-hub/trellis/engine/apply"
	"github.com/trellis-hub/trellis/engine/ownership"
)

func restHTTPClient(config *rest.Config) (*http.Client, error) { return rest.HTTPClientFor(config) }

func configMap(ns, name, value string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {namespace: %s, name: %s}\ndata: {key: %q}\n", ns, name, value)
}

func TestApplyIsIdempotent(t *testing.T) {
	g := NewWithT(t)
	ns := namespace(t)
	first := run1(t, configMap(ns, "a", "1"))
	g.Expect(first.Err).NotTo(HaveOccurred())
	second := run1(t, configMap(ns, "a", "1"))
	g.Expect(second.Err).NotTo(HaveOccurred())
	g.Expect(second.ResourceVersion).To(Equal(first.ResourceVersion))
	g.Expect(second.State).To(Equal(first.State))
	g.Expect(second.TakenBack).To(BeEmpty())
}

func TestKnownUID(t *testing.T) {
	t.Run("an object that is gone is created anew, not resurrected by accident", func(t *testing.T) {
		g := NewWithT(t)
		ns := namespace(t)
		in := prepare(t, manifest(t, configMap(ns, "a", "1")))
		in[0].UID = "11111111-1111-1111-1111-111111111111"
		out := applier.Run(t.Context(), access, in, nil)[0]
		g.Expect(out.Err).NotTo(HaveOccurred())
		g.Expect(out.UID).NotTo(Equal(in[0].UID))
	})
	t.Run("an object that another client created again is adopted", func(t *testing.T) {
		g := NewWithT(t)
		ns := namespace(t)
		foreign := &corev1.ConfigMap{Data: map[string]string{"other": "x"}}
		foreign.Namespace, foreign.Name = ns, "a"
		g.Expect(cluster.Client.Create(t.Context(), foreign)).To(Succeed())
		in := prepare(t, manifest(t, configMap(ns, "a", "1")))
		in[0].UID = "11111111-1111-1111-1111-111111111111"
		out := applier.Run(t.Context(), access, in, nil)[0]
		g.Expect(out.Err).NotTo(HaveOccurred())
		g.Expect(out.UID).To(Equal(foreign.UID))
		g.Expect(live(t, in[0].Object).Object["data"]).To(Equal(map[string]any{"key": "1"}))
	})
	t.Run("a terminating object is left alone", func(t *testing.T) {
		g := NewWithT(t)
		ns := namespace(t)
		foreign := &corev1.ConfigMap{}
		foreign.Namespace, foreign.Name, foreign.Finalizers = ns, "a", []string{"example.com/hold"}
		g.Expect(cluster.Client.Create(t.Context(), foreign)).To(Succeed())
		g.Expect(cluster.Client.Delete(t.Context(), foreign)).To(Succeed())
		in := prepare(t, manifest(t, configMap(ns, "a", "1")))
		in[0].UID = foreign.UID
		out := applier.Run(t.Context(), access, in, nil)[0]
		g.Expect(out.Err).To(MatchError(apply.ErrTerminating))
	})
}

const deployment = `
apiVersion: apps/v1
kind: Deployment
metadata: {namespace: %s, name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: web
        image: example/web:1
        env: [{name: A, value: "1"}]
        ports: [{containerPort: 80}]
`

func TestForeignPayloadIsTakenBack(t *testing.T) {
	for name, write := range map[string]func(g *WithT, t *testing.T, obj *unstructured.Unstructured){
		"by update": func(g *WithT, t *testing.T, obj *unstructured.Unstructured) {
			addEnv(g, obj)
			g.Expect(cluster.Client.Update(t.Context(), obj, client.FieldOwner("someone"))).To(Succeed())
		},
		"by merge patch": func(g *WithT, t *testing.T, obj *unstructured.Unstructured) {
			base := obj.DeepCopy()
			addEnv(g, obj)
			g.Expect(cluster.Client.Patch(t.Context(), obj, client.MergeFrom(base), client.FieldOwner("someone"))).To(Succeed())
		},
		"by server-side apply": func(g *WithT, t *testing.T, obj *unstructured.Unstructured) {
			patch := fmt.Sprintf(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"namespace":%q,"name":"web"},"spec":{"template":{"spec":{"containers":[{"name":"web","env":[{"name":"B","value":"2"}]}]}}}}`, obj.GetNamespace())
			g.Expect(cluster.Client.Patch(t.Context(), obj, client.RawPatch(types.ApplyPatchType, []byte(patch)), client.FieldOwner("someone"))).To(Succeed())
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			ns := namespace(t)
			text := fmt.Sprintf(deployment, ns)
			before := run1(t, text)
			g.Expect(before.Err).NotTo(HaveOccurred())
			obj := live(t, manifest(t, text))
			generation, was := obj.GetGeneration(), owned(t, obj)
			write(g, t, obj)
			g.Expect(live(t, obj).GetGeneration()).To(BeNumerically(">", generation))

			after := run1(t, text)
			g.Expect(after.Err).NotTo(HaveOccurred())
			g.Expect(after.TakenBack).NotTo(BeEmpty())
			g.Expect(after.UID).To(Equal(before.UID))
			g.Expect(owned(t, obj)).To(Equal(was), "ownership is as it was before the edit")
			g.Expect(after.State).To(Equal(ownership.Observe(live(t, obj), applier.FieldManager)))
			_, container := container(g, live(t, obj))
			g.Expect(container["env"]).To(Equal([]any{map[string]any{"name": "A", "value": "1"}}))
		})
	}
}

func addEnv(g *WithT, obj *unstructured.Unstructured) {
	containers, c := container(g, obj)
	env, _, err := unstructured.NestedSlice(c, "env")
	g.Expect(err).NotTo(HaveOccurred())
	c["env"] = append(env, map[string]any{"name": "B", "value": "2"})
	g.Expect(unstructured.SetNestedSlice(obj.Object, containers, "spec", "template", "spec", "containers")).To(Succeed())
}

// container returns the containers of a Deployment, and the only one.
func container(g *WithT, obj *unstructured.Unstructured) ([]any, map[string]any) {
	containers, _, err := unstructured.NestedSlice(obj.Object, "spec", "template", "spec", "containers")
	g.Expect(err).NotTo(HaveOccurred())
	c, ok := containers[0].(map[string]any)
	g.Expect(ok).To(BeTrue())
	return containers, c
}

func TestUnknownFieldsAreLeftOut(t *testing.T) {
	for name, c := range map[string]struct {
		text    func(ns string) string
		unknown string
	}{
		"at the top": {func(ns string) string { return configMap(ns, "a", "1") + "speck: {x: 1}\n" }, ".speck"},
		"in a list item": {func(ns string) string {
			return fmt.Sprintf(deployment, ns) + "        imagee: x\n"
		}, `.spec.template.spec.containers[name="web"].imagee`},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			out := run1(t, c.text(namespace(t)))
			g.Expect(out.Err).NotTo(HaveOccurred())
			g.Expect(out.UnknownFields).To(ConsistOf(c.unknown))
		})
	}
}

func TestDefinitionAndInstanceInOneRun(t *testing.T) {
	g := NewWithT(t)
	ns := namespace(t)
	crd := manifest(t, `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.apply.example.com}
spec:
  group: apply.example.com
  names: {kind: Widget, listKind: WidgetList, plural: widgets, singular: widget}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, x-kubernetes-preserve-unknown-fields: true}}}}
`)
	widget := manifest(t, "apiVersion: apply.example.com/v1\nkind: Widget\nmetadata: {namespace: "+ns+", name: w}\nspec: {size: 3}\n")
	for _, o := range applier.Run(t.Context(), access, prepare(t, widget, crd), nil) {
		g.Expect(o.Err).NotTo(HaveOccurred(), o.Key.String())
	}
	g.Expect(live(t, widget).Object["spec"]).To(Equal(map[string]any{"size": int64(3)}))
}

func TestW16_FailureStopsOnlyWhatNeedsIt(t *testing.T) {
	g := NewWithT(t)
	ns := namespace(t)
	outs := applier.Run(t.Context(), access, prepare(t,
		manifest(t, "apiVersion: v1\nkind: Namespace\nmetadata: {name: Not-Valid}\n"),
		manifest(t, configMap("Not-Valid", "inside", "1")),
		manifest(t, configMap(ns, "outside", "1")),
	), nil)
	g.Expect(outs[0].Err).To(HaveOccurred())
	g.Expect(outs[1].Err).To(MatchError(ContainSubstring("it needs Namespace Not-Valid")))
	g.Expect(outs[2].Err).NotTo(HaveOccurred())
}

func TestReplicasThatTheManifestLeavesToOthers(t *testing.T) {
	g := NewWithT(t)
	ns := namespace(t)
	with := fmt.Sprintf(deployment, ns)
	obj := manifest(t, with)
	without := obj.DeepCopy()
	unstructured.RemoveNestedField(without.Object, "spec", "replicas")
	g.Expect(run1(t, with).Err).NotTo(HaveOccurred())

	// A manifest that stops setting replicas keeps the live number, instead of falling back to the default.
	for range 2 {
		g.Expect(applier.Run(t.Context(), access, prepare(t, without), nil)[0].Err).NotTo(HaveOccurred())
		g.Expect(replicas(t, obj)).To(BeEquivalentTo(2))
	}
	// From then on, the writer that scales owns the number.
	scaled := live(t, obj)
	g.Expect(unstructured.SetNestedField(scaled.Object, int64(5), "spec", "replicas")).To(Succeed())
	g.Expect(cluster.Client.Update(t.Context(), scaled, client.FieldOwner("scaler"))).To(Succeed())
	out := applier.Run(t.Context(), access, prepare(t, without), nil)[0]
	g.Expect(out.Err).NotTo(HaveOccurred())
	g.Expect(out.TakenBack).To(BeEmpty())
	g.Expect(replicas(t, obj)).To(BeEquivalentTo(5))
}

func replicas(t *testing.T, obj *unstructured.Unstructured) int64 {
	n, _, _ := unstructured.NestedInt64(live(t, obj).Object, "spec", "replicas")
	return n
}

func TestFinalizersOfTheManifestCountAtCreation(t *testing.T) {
	g := NewWithT(t)
	ns := namespace(t)
	text := "apiVersion: v1\nkind: ConfigMap\nmetadata: {namespace: " + ns + ", name: a, finalizers: [example.com/a, example.com/b]}\n"
	g.Expect(run1(t, text).Err).NotTo(HaveOccurred())
	obj := live(t, manifest(t, text))
	obj.SetFinalizers([]string{"example.com/b", "example.com/foreign"})
	g.Expect(cluster.Client.Update(t.Context(), obj, client.FieldOwner("someone"))).To(Succeed())
	g.Expect(run1(t, text).Err).NotTo(HaveOccurred())
	g.Expect(live(t, obj).GetFinalizers()).To(ConsistOf("example.com/b", "example.com/foreign"))
}

func TestStringDataOfASecret(t *testing.T) {
	g := NewWithT(t)
	ns := namespace(t)
	secret := func(data string) string {
		return "apiVersion: v1\nkind: Secret\nmetadata: {namespace: " + ns + ", name: a}\nstringData: " + data + "\n"
	}
	g.Expect(run1(t, secret("{a: one, b: two}")).Err).NotTo(HaveOccurred())
	g.Expect(run1(t, secret("{a: one}")).Err).NotTo(HaveOccurred())
	g.Expect(live(t, manifest(t, secret("{}"))).Object["data"]).To(Equal(map[string]any{"a": "b25l"}))
}

func TestCreateOnly(t *testing.T) {
	g := NewWithT(t)
	ns := namespace(t)
	text := "apiVersion: v1\nkind: ConfigMap\nmetadata: {namespace: " + ns + ", name: a, annotations: {resources.gardener.cloud/ignore: \"true\"}}\ndata: {key: one}\n"
	first := run1(t, text)
	g.Expect(first.Err).NotTo(HaveOccurred())
	obj := live(t, manifest(t, text))
	g.Expect(obj.GetLabels()).To(BeEmpty())
	g.Expect(obj.GetAnnotations()).To(HaveLen(1))
	obj.Object["data"] = map[string]any{"key": "two"}
	g.Expect(cluster.Client.Update(t.Context(), obj)).To(Succeed())
	second := run1(t, text)
	g.Expect(second.Err).NotTo(HaveOccurred())
	g.Expect(second.UID).To(Equal(first.UID))
	g.Expect(live(t, obj).Object["data"]).To(Equal(map[string]any{"key": "two"}))
}
