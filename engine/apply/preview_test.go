package apply_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-hub/trellis/engine/apply"
)

// content is an object without what every write sets again.
func content(obj *unstructured.Unstructured) map[string]any {
	obj = obj.DeepCopy()
	for _, field := range []string{"managedFields", "resourceVersion", "uid", "generation", "creationTimestamp"} {
		unstructured.RemoveNestedField(obj.Object, "metadata", field)
	}
	return obj.Object
}

// TestAPreviewIsWhatTheApplyMakes holds previews against what comes to pass.
func TestAPreviewIsWhatTheApplyMakes(t *testing.T) {
	configMap := func(rest string) string {
		return "apiVersion: v1\nkind: ConfigMap\nmetadata: {namespace: %s, name: a" + rest
	}
	const service = "apiVersion: v1\nkind: Service\nmetadata: {namespace: %s, name: a}\nspec: {type: NodePort, selector: {app: web}, ports: [{name: http, port: 80}]}\n"
	const pods = "apiVersion: v1\nkind: ServiceAccount\nmetadata: {namespace: %s, name: a}\n"
	for name, c := range map[string]struct {
		// before is applied first, if there is anything; then another client makes the edit; then after is applied.
		before, edit, after string
		takenBack           bool
		check               func(g *WithT, p apply.Preview)
	}{
		"a new object": {after: configMap("}\ndata: {key: '1'}\n"),
			check: func(g *WithT, p apply.Preview) { g.Expect(p.Live).To(BeNil()) }},
		"nothing": {before: deployment, after: deployment},
		"another value": {before: configMap("}\ndata: {key: '1', gone: x}\n"),
			after: configMap("}\ndata: {key: '2'}\n")},
		"a value of another client": {before: configMap("}\ndata: {key: '1'}\n"),
			edit: `{"data":{"key":"2"}}`, after: configMap("}\ndata: {key: '1'}\n")},
		"a field of another client": {before: configMap("}\ndata: {key: '1'}\n"),
			edit: `{"data":{"foreign":"2"}}`, after: configMap("}\ndata: {key: '1'}\n"), takenBack: true},
		"a field of another client with a default": {before: deployment,
			edit: `{"spec":{"template":{"spec":{"terminationGracePeriodSeconds":5}}}}`, after: deployment, takenBack: true},
		"an item of another client": {
			before: deployment, edit: `{"spec":{"template":{"spec":{"containers":[{"name":"web","env":[{"name":"B","value":"2"}],"ports":[{"containerPort":81}]}]}}}}`,
			after: deployment, takenBack: true,
		},
		"a container of another client": {before: deployment,
			edit: `{"spec":{"template":{"spec":{"containers":[{"name":"other","image":"other"}]}}}}`, after: deployment,
			takenBack: true},
		"a label of another client stays": {before: configMap("}\n"),
			edit: `{"metadata":{"labels":{"theirs":"1"},"annotations":{"theirs":"1"}}}`, after: configMap("}\n")},
		"labels that are not wanted any longer go": {
			before: configMap(", labels: {a: '1', b: '1'}, annotations: {a: '1', b: '1'}}\n"),
			after:  configMap(", labels: {a: '1'}, annotations: {b: '1'}}\n"),
		},
		"what the API server fills in stays": {before: service, after: service},
		"another port": {
			before: service, edit: `{"spec":{"ports":[{"port":443,"name":"https"}]}}`, after: service, takenBack: true,
		},
		"secrets of a service account stay": {before: pods, edit: `{"secrets":[{"name":"token"}]}`, after: pods},
		"an immutable object is made again": {
			before: configMap("}\nimmutable: true\ndata: {key: '1'}\n"), after: configMap("}\nimmutable: true\ndata: {key: '2'}\n"),
			check: func(g *WithT, p apply.Preview) { g.Expect(p.Recreated).To(BeTrue()) },
		},
		"what the target does not know": {
			before: configMap("}\n"), after: configMap("}\nstrange: 1\n"),
			check: func(g *WithT, p apply.Preview) { g.Expect(p.UnknownFields).To(ConsistOf(".strange")) },
		},
		"items of one name": {
			before: deployment, after: "apiVersion: apps/v1\nkind: Deployment\nmetadata: {namespace: %s, name: web}\nspec: {replicas: 2, selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}, " +
				"spec: {containers: [{name: web, image: 'example/web:1', env: [{name: A, value: '1'}, {name: A, value: '2'}]}]}}}\n",
			check: func(g *WithT, p apply.Preview) { g.Expect(p.Duplicates).NotTo(BeEmpty()) },
		},
		"create only, and there": {before: configMap("}\ndata: {key: '1'}\n"), after: configMap(", annotations: {resources.gardener.cloud/ignore: 'true'}}\ndata: {key: '2'}\n")},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			ns := namespace(t)
			var entry *apply.Prepared
			if c.before != "" {
				before, err := apply.Prepare(t.Context(), manifest(t, fmt.Sprintf(c.before, ns)), nil, access.Mapper, nil, marks)
				g.Expect(err).NotTo(HaveOccurred())
				entry = &before
				g.Expect(applier.Run(t.Context(), access, []apply.Intent{before.Intent}, nil)[0].Err).NotTo(HaveOccurred())
			}
			after := manifest(t, fmt.Sprintf(c.after, ns))
			if c.edit != "" {
				g.Expect(cluster.Client.Patch(t.Context(), live(t, after), client.RawPatch(types.StrategicMergePatchType,
					[]byte(c.edit)), client.FieldOwner("another-client"))).To(Succeed())
			}
			in := prepare(t, after)[0]
			version := ""
			if entry != nil {
				in.Base = apply.BaseOf(&entry.Entry)
				version = live(t, after).GetResourceVersion()
			}

			preview, err := applier.Preview(t.Context(), access, in)
			g.Expect(err).NotTo(HaveOccurred())
			if c.check != nil {
				c.check(g, preview)
			}
			if c.takenBack {
				g.Expect(preview.TakenBack).NotTo(BeEmpty())
			} else {
				g.Expect(preview.TakenBack).To(BeEmpty())
			}
			if entry == nil {
				err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(after), after.DeepCopy())
				g.Expect(apierrors.IsNotFound(err)).To(BeTrue(), "a preview creates nothing")
			} else {
				g.Expect(live(t, after).GetResourceVersion()).To(Equal(version), "a preview changes nothing")
			}

			g.Expect(applier.Run(t.Context(), access, []apply.Intent{in}, nil)[0].Err).NotTo(HaveOccurred())
			g.Expect(content(preview.After)).To(Equal(content(live(t, after))))
		})
	}
}

func TestPreviewReportsRefusals(t *testing.T) {
	g := NewWithT(t)
	ns := namespace(t)
	g.Expect(run1(t, fmt.Sprintf(deployment, ns)).Err).NotTo(HaveOccurred())
	other := manifest(t, fmt.Sprintf(deployment, ns))
	g.Expect(unstructured.SetNestedStringMap(other.Object, map[string]string{"app": "other"}, "spec", "selector", "matchLabels")).To(Succeed())
	g.Expect(unstructured.SetNestedStringMap(other.Object, map[string]string{"app": "other"}, "spec", "template", "metadata", "labels")).To(Succeed())
	_, err := applier.Preview(t.Context(), access, prepare(t, other)[0])
	g.Expect(err).To(MatchError(ContainSubstring("immutable")))

	secret := manifest(t, "apiVersion: v1\nkind: Secret\nmetadata: {namespace: "+ns+", name: s}\ndata: {key: not-base64-but-geheim}\n")
	_, err = applier.Preview(t.Context(), access, prepare(t, secret)[0])
	g.Expect(err).To(HaveOccurred())
	g.Expect(err.Error()).NotTo(ContainSubstring("geheim"))

	_, err = applier.Preview(t.Context(), access, prepare(t, manifest(t, configMap("does-not-exist", "a", "1")))[0])
	g.Expect(apierrors.IsNotFound(err)).To(BeTrue())
}

// What the admission of a target sets again with each write is no change: nothing is written for it.
func TestAPreviewLeavesStampsOut(t *testing.T) {
	g := NewWithT(t)
	ns := namespace(t)
	for _, text := range []string{`
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: %[1]s}
spec:
  failurePolicy: Fail
  reinvocationPolicy: Never
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [configmaps]}]
  mutations:
  - patchType: ApplyConfiguration
    applyConfiguration:
      expression: >
        Object{metadata: Object.metadata{annotations: {"stamp.trellis.test/writes":
        oldObject == null ? "1" : oldObject.metadata.?annotations["stamp.trellis.test/writes"].orValue("") + "1"}}}
  - patchType: JSONPatch
    jsonPatch:
      expression: >
        "counted" in object.?data.orValue({}) ?
        [JSONPatch{op: "replace", path: "/data/counted", value: object.data["counted"] + "1"}] : []
`, `
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: %[1]s}
spec: {policyName: %[1]s, matchResources: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %[1]s}}}}
`} {
		obj := manifest(t, fmt.Sprintf(text, ns))
		g.Expect(cluster.Client.Create(t.Context(), obj)).To(Succeed())
		t.Cleanup(func() { _ = cluster.Client.Delete(context.Background(), obj) })
	}
	probe := manifest(t, configMap(ns, "probe", "1"))
	stamp := func(obj *unstructured.Unstructured) string { return obj.GetAnnotations()["stamp.trellis.test/writes"] }
	g.Eventually(func() (string, error) {
		made := probe.DeepCopy()
		err := cluster.Client.Create(t.Context(), made, client.DryRunAll)
		return stamp(made), err
	}).Should(Equal("1"), "policies take effect after a moment")

	first := run1(t, configMap(ns, "cm", "1"))
	g.Expect(first.Err).NotTo(HaveOccurred())
	before := live(t, manifest(t, configMap(ns, "cm", "1")))
	g.Expect(stamp(before)).NotTo(BeEmpty())

	in := prepare(t, manifest(t, configMap(ns, "cm", "1")))[0]
	in.UID = first.UID
	same, err := applier.Preview(t.Context(), access, in)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(content(same.After)).To(Equal(content(same.Live)))

	in = prepare(t, manifest(t, configMap(ns, "cm", "2")))[0]
	in.UID = first.UID
	other, err := applier.Preview(t.Context(), access, in)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(other.After.Object["data"]).To(Equal(map[string]any{"key": "2"}))
	g.Expect(stamp(other.After)).To(Equal(stamp(before)))

	// What goes with the manifest goes, whatever a write would make of it.
	counted := run1(t, strings.Replace(configMap(ns, "counted", "1"), "{key:", "{counted: '1', key:", 1))
	g.Expect(counted.Err).NotTo(HaveOccurred())
	in = prepare(t, manifest(t, configMap(ns, "counted", "1")))[0]
	in.UID = counted.UID
	less, err := applier.Preview(t.Context(), access, in)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(less.Live.Object["data"]).To(HaveKey("counted"))
	g.Expect(less.After.Object["data"]).To(Equal(map[string]any{"key": "1"}))
}
