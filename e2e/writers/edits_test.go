package writers

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// edit changes the content of an object.
type edit func(content map[string]any)

// writer brings the content of an object from before to after, the way one kind of client does. Appliers cannot take
// anything away that they did not bring.
type writer struct {
	write   func(p place, before, after *unstructured.Unstructured)
	applier bool
	builtIn bool // only kinds that are compiled into the server
}

func (p place) send(obj *unstructured.Unstructured, t types.PatchType, patch []byte, manager string, options ...client.PatchOption) {
	p.t.Helper()
	p.Expect(target.Client.Patch(p.ctx, obj.DeepCopy(), client.RawPatch(t, patch), append(options, client.FieldOwner(manager))...)).To(Succeed(), string(patch))
}

func (p place) mustJSON(v any) []byte {
	raw, err := json.Marshal(v)
	p.Expect(err).NotTo(HaveOccurred())
	return raw
}

// mergePatchBetween leaves out the resourceVersion, so that a controller that wrote meanwhile does not matter.
func (p place) mergePatchBetween(before, after *unstructured.Unstructured) []byte {
	raw, err := client.MergeFrom(before).Data(after)
	p.Expect(err).NotTo(HaveOccurred())
	return raw
}

func (p place) strategicPatchBetween(before, after *unstructured.Unstructured) []byte {
	typed, err := scheme.Scheme.New(before.GroupVersionKind())
	p.Expect(err).NotTo(HaveOccurred())
	raw, err := strategicpatch.CreateTwoWayMergePatch(p.mustJSON(before.Object), p.mustJSON(after.Object), typed)
	p.Expect(err).NotTo(HaveOccurred())
	return raw
}

var writersOfAllKinds = map[string]writer{
	"update": {write: func(p place, _, after *unstructured.Unstructured) {
		p.update(after, "updater", func(content map[string]any) {
			for field := range content {
				if field != "metadata" {
					delete(content, field)
				}
			}
			for field, value := range after.Object {
				if field != "metadata" {
					content[field] = value
				}
			}
		})
	}},
	"JSON patch": {write: func(p place, before, after *unstructured.Unstructured) {
		p.send(after, types.JSONPatchType, p.mustJSON(difference("", before.Object, after.Object)), "json-patcher")
	}},
	"merge patch": {write: func(p place, before, after *unstructured.Unstructured) {
		p.send(after, types.MergePatchType, p.mergePatchBetween(before, after), "merge-patcher")
	}},
	"strategic merge patch": {builtIn: true, write: func(p place, before, after *unstructured.Unstructured) {
		p.send(after, types.StrategicMergePatchType, p.strategicPatchBetween(before, after), "strategic-patcher")
	}},
	"apply": {applier: true, write: func(p place, _, after *unstructured.Unstructured) {
		p.send(after, types.ApplyPatchType, p.mustJSON(intentOf(after).Object), "applier", client.ForceOwnership)
	}},
	// The patch that "kubectl apply" makes without --server-side, with the annotation by which it remembers.
	"kubectl apply": {write: func(p place, before, after *unstructured.Unstructured) {
		annotations := after.GetAnnotations()
		annotations["kubectl.kubernetes.io/last-applied-configuration"] = string(p.mustJSON(intentOf(after).Object))
		after.SetAnnotations(annotations)
		if scheme.Scheme.Recognizes(after.GroupVersionKind()) {
			p.send(after, types.StrategicMergePatchType, p.strategicPatchBetween(before, after), "kubectl-client-side-apply")
		} else {
			p.send(after, types.MergePatchType, p.mergePatchBetween(before, after), "kubectl-client-side-apply")
		}
	}},
}

// intentOf is what an applier sends: all fields that a user may set.
func intentOf(obj *unstructured.Unstructured) *unstructured.Unstructured {
	out := obj.DeepCopy()
	delete(out.Object, "status")
	out.Object["metadata"] = map[string]any{"name": obj.GetName()}
	if obj.GetNamespace() != "" {
		put(out.Object, "metadata.namespace", obj.GetNamespace())
	}
	return out
}

// difference lists the steps of a JSON patch. Lists are replaced as a whole.
func difference(path string, before, after map[string]any) []map[string]any {
	steps := []map[string]any{}
	names := maps.Clone(before)
	maps.Copy(names, after)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		at := path + "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
		old, had := before[name]
		now, has := after[name]
		oldMap, isMap := old.(map[string]any)
		nowMap, stays := now.(map[string]any)
		switch {
		case !has:
			steps = append(steps, map[string]any{"op": "remove", "path": at})
		case !had:
			steps = append(steps, map[string]any{"op": "add", "path": at, "value": now})
		case isMap && stays:
			steps = append(steps, difference(at, oldMap, nowMap)...)
		case !reflect.DeepEqual(old, now):
			steps = append(steps, map[string]any{"op": "replace", "path": at, "value": now})
		}
	}
	return steps
}

// kept is a kind with what may be done to its objects. $name stands for the name of one.
type kept struct {
	before   string // what has to be there, such as its definition
	manifest string
	edits    map[string]edit
}

func set(path string, value any) edit {
	return func(content map[string]any) { put(content, path, value) }
}

func drop(path string) edit {
	return func(content map[string]any) { unstructured.RemoveNestedField(content, strings.Split(path, ".")...) }
}

// add appends an item to a list.
func add(path string, item any) edit {
	return func(content map[string]any) {
		list, _ := at(content, path).([]any)
		put(content, path, append(slices.Clone(list), item))
	}
}

// cut removes the last item of a list.
func cut(path string) edit {
	return func(content map[string]any) {
		list, _ := at(content, path).([]any)
		put(content, path, list[:len(list)-1])
	}
}

func object(pairs ...any) map[string]any {
	out := map[string]any{}
	for i := 0; i < len(pairs); i += 2 {
		out[fmt.Sprint(pairs[i])] = pairs[i+1]
	}
	return out
}

// removals are edits that no applier can make.
var removals = []string{"an item is removed", "a key is removed", "a field is removed", "all is removed"}

func keptKinds() map[string]kept {
	plants := func(scope, schema string) string {
		return `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: ` + scope + `.$ns.trellis.test}
spec:
  group: $ns.trellis.test
  scope: Namespaced
  names: {kind: ` + scope + `, plural: ` + scope + `, singular: ` + scope + `}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: ` + schema + `}}]
`
	}
	plant := func(kind string) string {
		return "apiVersion: $ns.trellis.test/v1\nkind: " + kind + "\nmetadata: {namespace: $ns, name: $name}\nspec: {height: 3, colours: [red, green], leaves: [{name: a, size: 1}, {name: b, size: 2}], soil: {ph: 7, wet: true}}\n"
	}
	plantEdits := map[string]edit{
		"a value is changed": set("spec.height", int64(9)), "an item is added": add("spec.colours", "blue"), "an item is removed": cut("spec.leaves"),
		"a nested item is added": add("spec.leaves", object("name", "c", "size", int64(3))), "a key is removed": drop("spec.soil.wet"), "a key is added": set("spec.soil.sand", "much"), "a field is removed": drop("spec.soil"),
	}
	const app = "spec.template.spec.containers.0"
	return map[string]kept{
		"ConfigMap": {
			manifest: "apiVersion: v1\nkind: ConfigMap\nmetadata: {namespace: $ns, name: $name}\ndata: {a: \"1\", b: \"2\"}\n",
			edits: map[string]edit{"a value is changed": set("data.a", "9"), "a key is removed": drop("data.b"), "a key is added": set("data.c", "3"),
				"a field is added": set("binaryData", object("x", "AAAA")), "all is removed": drop("data")},
		},
		"Secret": {
			manifest: "apiVersion: v1\nkind: Secret\nmetadata: {namespace: $ns, name: $name}\nstringData: {a: \"1\"}\ndata: {b: Mg==}\n",
			edits: map[string]edit{"a value is changed": set("data.a", "OQ=="), "a key is removed": drop("data.b"), "a key is added": set("data.c", "Mw=="),
				"all is removed": drop("data")},
		},
		"Deployment": {
			manifest: `apiVersion: apps/v1
kind: Deployment
metadata: {namespace: $ns, name: $name}
spec:
  replicas: 0
  selector: {matchLabels: {app: $name}}
  template:
    metadata: {labels: {app: $name}}
    spec:
      containers:
      - {name: app, image: "example.org/app:1", args: [--calm], env: [{name: A, value: "1"}, {name: B, value: "2"}], ports: [{containerPort: 80}], volumeMounts: [{name: v, mountPath: /v}]}
      - {name: side, image: "example.org/side:1"}
      volumes: [{name: v, emptyDir: {}}, {name: w, configMap: {name: some}}]
`,
			edits: map[string]edit{
				"an image is changed": set(app+".image", "example.org/other:2"), "a variable is changed": set(app+".env.1.value", "9"),
				"a variable is added": add(app+".env", object("name", "C", "value", "3")), "an item is removed": cut(app + ".env"),
				"a container is added": add("spec.template.spec.containers", object("name", "extra", "image", "example.org/extra:1")),
				"a volume is added":    add("spec.template.spec.volumes", object("name", "x", "emptyDir", object())),
				"a port is added":      add(app+".ports", object("containerPort", int64(81))), "arguments are added": add(app+".args", "--wild"),
				"a field is removed": func(content map[string]any) {
					container, _ := at(content, app).(map[string]any)
					delete(container, "env")
				},
				"a default is changed": set("spec.revisionHistoryLimit", int64(1)), "a key is added": set("spec.template.spec.nodeSelector", object("foreign", "1")),
				"replicas are changed": set("spec.replicas", int64(1)),
			},
		},
		"Service": {
			manifest: "apiVersion: v1\nkind: Service\nmetadata: {namespace: $ns, name: $name}\nspec: {selector: {app: a, tier: b}, ports: [{name: http, port: 80, targetPort: 8080}, {name: https, port: 443}]}\n",
			edits: map[string]edit{"a value is changed": set("spec.ports.0.targetPort", int64(9090)), "an item is removed": cut("spec.ports"),
				"an item is added": add("spec.ports", object("name", "more", "port", int64(81), "protocol", "TCP")), "a key is added": set("spec.selector.foreign", "1"),
				"a key is removed": drop("spec.selector.tier"), "a default is changed": set("spec.sessionAffinity", "ClientIP")},
		},
		"Role": {
			manifest: "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {namespace: $ns, name: $name}\nrules: [{apiGroups: [\"\"], resources: [pods], verbs: [get]}, {apiGroups: [\"\"], resources: [configmaps], verbs: [get, list]}]\n",
			edits: map[string]edit{"a value is changed": set("rules.0.verbs", []any{"*"}), "an item is removed": cut("rules"),
				"an item is added": add("rules", object("apiGroups", []any{""}, "resources", []any{"secrets"}, "verbs", []any{"get"})), "all is removed": set("rules", []any{})},
		},
		"RoleBinding": {
			manifest: "apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata: {namespace: $ns, name: $name}\nroleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: some}\nsubjects: [{kind: ServiceAccount, namespace: $ns, name: a}]\n",
			edits: map[string]edit{"a value is changed": set("subjects.0.name", "b"), "all is removed": drop("subjects"),
				"an item is added": add("subjects", object("kind", "ServiceAccount", "namespace", "kube-system", "name", "b"))},
		},
		"NetworkPolicy": {
			manifest: "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {namespace: $ns, name: $name}\nspec: {podSelector: {matchLabels: {app: a, tier: b}}, policyTypes: [Ingress], ingress: [{from: [{podSelector: {matchLabels: {app: b}}}], ports: [{port: 80, protocol: TCP}]}]}\n",
			edits: map[string]edit{"an item is added": add("spec.ingress", object()), "all is removed": drop("spec.ingress"), "a key is removed": drop("spec.podSelector.matchLabels.tier"),
				"a key is added": set("spec.podSelector.matchLabels.foreign", "1"), "a value is changed": set("spec.ingress.0.ports.0.port", int64(81)),
				"another list is added": set("spec.egress", []any{object()})},
		},
		"PodDisruptionBudget": {
			manifest: "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {namespace: $ns, name: $name}\nspec: {maxUnavailable: 1, selector: {matchLabels: {app: a}}}\n",
			edits: map[string]edit{"a value is changed": set("spec.maxUnavailable", "50%"), "a key is added": set("spec.selector.matchLabels.foreign", "1"),
				"a field is added": set("spec.unhealthyPodEvictionPolicy", "AlwaysAllow"), "a field is removed": drop("spec.maxUnavailable"),
				"an item is added": add("spec.selector.matchExpressions", object("key", "x", "operator", "Exists"))},
		},
		"ValidatingWebhookConfiguration": {
			manifest: strings.ReplaceAll(injectedKinds()["ValidatingWebhookConfiguration"].manifest, "$ns-webhook", "$ns-$name"),
			edits: map[string]edit{"a value is changed": set("webhooks.0.failurePolicy", "Fail"), "an item is added": add("webhooks.0.rules.0.operations", "DELETE"),
				"a webhook is added": add("webhooks", object("name", "b.trellis.test", "clientConfig", object("url", "https://nowhere.trellis.test"), "failurePolicy", "Ignore",
					"sideEffects", "None", "admissionReviewVersions", []any{"v1"})), "a default is changed": set("webhooks.0.timeoutSeconds", int64(3)),
				"a field is added": set("webhooks.0.namespaceSelector", object("matchLabels", object("foreign", "1"))), "all is removed": set("webhooks", []any{})},
		},
		"CustomResourceDefinition": {
			manifest: `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.$name.$ns.trellis.test}
spec:
  group: $name.$ns.trellis.test
  scope: Cluster
  names: {kind: Thing, plural: things, singular: thing, shortNames: [th]}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object}}}}, additionalPrinterColumns: [{name: A, type: string, jsonPath: .spec.a}]}]
`,
			edits: map[string]edit{"much at once": func(content map[string]any) {
				set("spec.versions.0.schema.openAPIV3Schema.properties.spec.properties", object("a", object("type", "string")))(content)
				add("spec.names.categories", "all")(content)
				set("spec.versions.0.additionalPrinterColumns.0.jsonPath", ".spec.b")(content)
				add("spec.versions", object("name", "v2", "served", true, "storage", false, "schema", object("openAPIV3Schema", object("type", "object"))))(content)
			}},
		},
		"custom resource with a schema": {
			before: plants("rose", "{type: object, properties: {spec: {type: object, properties: {height: {type: integer, default: 1}, width: {type: integer, default: 2}, colours: {type: array, x-kubernetes-list-type: set, items: {type: string}}, "+
				"leaves: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [name], items: {type: object, required: [name], properties: {name: {type: string}, size: {type: integer}}}}, "+
				"soil: {type: object, properties: {ph: {type: integer}, wet: {type: boolean}, sand: {type: string}}}}}}}"),
			manifest: plant("rose"), edits: plantEdits,
		},
		"custom resource without a schema": {
			before: plants("weed", "{type: object, x-kubernetes-preserve-unknown-fields: true}"), manifest: plant("weed"), edits: plantEdits,
		},
	}
}

// payloadOf is what has to be as the manifest says: all but the status and what the server and others keep in metadata.
func payloadOf(obj *unstructured.Unstructured) map[string]any {
	out := maps.Clone(obj.Object)
	delete(out, "status")
	delete(out, "metadata")
	return out
}

func TestWhatOthersWriteIsUndone(t *testing.T) {
	t.Parallel()
	for kind, test := range keptKinds() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			type edited struct {
				name        string
				obj, right  *unstructured.Unstructured
				write, edit string
			}
			var all []*edited
			var objects []*unstructured.Unstructured
			for how, w := range writersOfAllKinds {
				for what := range test.edits {
					if w.applier && slices.Contains(removals, what) || w.builtIn && test.before != "" || w.builtIn && kind == "CustomResourceDefinition" {
						continue
					}
					obj := p.objects(strings.ReplaceAll(test.manifest, "$name", fmt.Sprintf("x%02d", len(all))))[0]
					objects = append(objects, obj)
					all = append(all, &edited{name: what + " by " + how, obj: obj, write: how, edit: what})
				}
			}
			if test.before != "" {
				p.manage("before", p.objects(test.before))
				p.awaitReady("before")
			}
			p.manage("mr", objects)
			p.awaitApplied("mr")
			for _, e := range all {
				e.right = p.live(e.obj)
				after := e.right.DeepCopy()
				test.edits[e.edit](after.Object)
				p.Expect(payloadOf(after)).NotTo(Equal(payloadOf(e.right)), "the edit makes a difference: "+e.name)
				writersOfAllKinds[e.write].write(p, e.right, after)
			}
			for _, e := range all {
				p.Eventually(func(g Gomega) {
					live, err := p.get(e.obj)
					g.Expect(err).NotTo(HaveOccurred())
					g.Expect(payloadOf(live)).To(Equal(payloadOf(e.right)))
				}).Should(Succeed(), e.name)
				live := p.live(e.obj)
				p.Expect(live.GetUID()).To(Equal(e.right.GetUID()), e.name)
				p.Expect(live.GetResourceVersion()).NotTo(Equal(e.right.GetResourceVersion()), "it was edited: "+e.name)
				p.Expect(live.GetLabels()).To(Equal(e.right.GetLabels()), e.name)
			}
			p.Eventually(func() string { return appliedCondition(p.mr("mr")) }).Should(Equal("True/ApplySucceeded"))
		})
	}
}

// Another writer that sets the same values as the hub is no conflict, even if it does so by an apply.
func TestSharedFieldsAreNoDrift(t *testing.T) {
	t.Parallel()
	for kind, test := range keptKinds() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			if test.before != "" {
				p.create(p.objects(test.before)...)
			}
			obj := p.objects(strings.ReplaceAll(test.manifest, "$name", "one"))[0]
			p.manage("mr", []*unstructured.Unstructured{obj})
			p.awaitApplied("mr")
			right := p.live(obj)
			intent := intentOf(obj)
			if kind == "Secret" {
				delete(intent.Object, "stringData")
				put(intent.Object, "data.a", "MQ==")
			}
			p.send(obj, types.ApplyPatchType, p.mustJSON(intent.Object), "like-minded") // not forced
			p.Expect(managers(p.live(obj))).To(ContainElement("like-minded"))
			p.nudge(obj)
			p.nudge(obj)
			p.awaitPatches(obj, 3, 0)
			live := p.live(obj)
			p.Expect(payloadOf(live)).To(Equal(payloadOf(right)))
			p.Expect(live.GetGeneration()).To(Equal(right.GetGeneration()))
			p.Expect(managers(live)).To(ContainElement("like-minded"))
			p.expectUndisturbed("mr")
		})
	}
}
