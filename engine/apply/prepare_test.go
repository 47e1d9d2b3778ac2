package apply_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/meta/testrestmapper"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/engine/apply"
	manifests "github.com/trellis-hub/trellis/engine/manifest"
)

func mapper() meta.RESTMapper { return testrestmapper.TestOnlyStaticRESTMapper(scheme.Scheme) }

func TestPrepare(t *testing.T) {
	g := NewWithT(t)
	p, err := apply.Prepare(t.Context(), manifest(t, `
apiVersion: apps/v1
kind: StatefulSet
metadata:
  name: db
  uid: x
  resourceVersion: "5"
  managedFields: []
  labels: {app: db, resources.gardener.cloud/managed-by: me}
  annotations: {note: a}
spec:
  template: {spec: {}}
  volumeClaimTemplates: [{metadata: {name: data}}]
status: {replicas: 3}
`), nil, mapper(), nil, marks)
	g.Expect(err).NotTo(HaveOccurred())
	o := p.Object
	g.Expect(o.GetNamespace()).To(Equal("default"))
	g.Expect(o.Object).NotTo(HaveKey("status"))
	g.Expect(o.GetUID()).To(BeEmpty())
	g.Expect(o.GetResourceVersion()).To(BeEmpty())
	// MR-23: the configured value wins over the manifest's.
	g.Expect(o.GetLabels()).To(Equal(map[string]string{"app": "db", resourcesv1alpha1.ManagedByLabel: "gardener"}))
	g.Expect(o.GetAnnotations()).To(Equal(map[string]string{
		"note": "a", resourcesv1alpha1.OriginAnnotation: "ns/mr", resourcesv1alpha1.DescriptionAnnotation: apply.Description,
	}))
	g.Expect(o.Object["spec"]).To(Equal(map[string]any{
		"template":             map[string]any{"metadata": map[string]any{"labels": map[string]any{resourcesv1alpha1.ManagedByLabel: "gardener"}}, "spec": map[string]any{}},
		"volumeClaimTemplates": []any{map[string]any{"metadata": map[string]any{"name": "data", "labels": map[string]any{resourcesv1alpha1.ManagedByLabel: "gardener"}}}},
	}))
	// The entry has the manifest's annotations, without ours, and the injected labels.
	g.Expect(p.Entry.Annotations).To(Equal(map[string]string{"note": "a"}))
	g.Expect(p.Entry.Labels).To(Equal(o.GetLabels()))
}

func TestBUG14_NamespacesOfObjects(t *testing.T) {
	crd := manifest(t, "{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: x}, spec: {group: e.com, scope: Cluster, names: {kind: Global}}}")
	for name, c := range map[string]struct{ text, want string }{
		"a namespaced kind without one":          {"{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}", "default"},
		"a cluster-scoped kind with one":         {"{apiVersion: v1, kind: Node, metadata: {name: a, namespace: x}}", ""},
		"an unknown kind without one":            {"{apiVersion: z.com/v1, kind: Thing, metadata: {name: a}}", "default"},
		"BUG14 a cluster-scoped kind of its own": {"{apiVersion: e.com/v1, kind: Global, metadata: {name: a}}", ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			o := manifest(t, c.text)
			p, err := apply.Prepare(t.Context(),
				o, nil, mapper(), apply.ScopeOfDefined(append([]*unstructured.Unstructured{crd}, o)), marks)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(p.Key.Namespace).To(Equal(c.want))
		})
	}
}

// TestKindsThatAreNotServed: a kind that is misspelt now may be an object that was applied under the right one. Whether
// it is served decides what is deleted.
func TestKindsThatAreNotServed(t *testing.T) {
	crd := manifest(t, "{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: x}, spec: {group: e.com, scope: Cluster, names: {kind: Global}}}")
	for name, c := range map[string]struct {
		text     string
		mapper   meta.RESTMapper
		unserved bool
		err      string
	}{
		"served":               {"{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}", mapper(), false, ""},
		"defined beside it":    {"{apiVersion: e.com/v1, kind: Global, metadata: {name: a}}", mapper(), false, ""},
		"unknown":              {"{apiVersion: v1, kind: MisConfigMap, metadata: {name: a}}", mapper(), true, ""},
		"unknown, and ignored": {"{apiVersion: v1, kind: MisConfigMap, metadata: {name: a, annotations: {resources.gardener.cloud/ignore: 'true'}}}", mapper(), true, ""},
		"unknown, and the target does not answer a second time": {"{apiVersion: v1, kind: MisConfigMap, metadata: {name: a}}", &failing{RESTMapper: mapper(), after: 1}, true, ""},
		"the target does not answer":                            {"{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}", &failing{RESTMapper: mapper()}, false, "looking up the kind: no answer"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			o := manifest(t, c.text)
			p, err := apply.Prepare(t.Context(),
				o, nil, c.mapper, apply.ScopeOfDefined([]*unstructured.Unstructured{crd, o}), marks)
			if c.err != "" {
				g.Expect(err).To(MatchError(c.err))
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(p.Unserved).To(Equal(c.unserved))
		})
	}
}

// failing gives so many answers, and then none.
type failing struct {
	meta.RESTMapper
	after int
}

func (f *failing) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	if f.after--; f.after < 0 {
		return nil, errors.New("no answer")
	}
	return f.RESTMapper.RESTMapping(kind, versions...)
}

func TestPrepareRefusesTemplatesThatAreNoMaps(t *testing.T) {
	g := NewWithT(t)
	_, err := apply.Prepare(t.Context(),
		manifest(t, "{apiVersion: apps/v1, kind: Deployment, metadata: {name: a}, spec: {template: text}}"),
		nil, mapper(), nil, marks)
	g.Expect(err).To(MatchError(ContainSubstring("spec.template is not a map")))
}

func TestPrepareDropsEmptyCABundles(t *testing.T) {
	g := NewWithT(t)
	p, err := apply.Prepare(t.Context(), manifest(t, `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: a}
webhooks: [{name: one, clientConfig: {caBundle: "", url: "https://x"}}, {name: two, clientConfig: {caBundle: Zm9v}}]
`), nil, mapper(), nil, marks)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(fmt.Sprint(p.Object.Object["webhooks"])).To(Equal("[map[clientConfig:map[url:https://x] name:one] map[clientConfig:map[caBundle:Zm9v] name:two]]"))
}

// Null means no limit, but an API server reads a quantity of zero.
func TestPrepareDropsNullQuantities(t *testing.T) {
	const container = "[{name: a, resources: {limits: {cpu: null, memory: 1Gi}, requests: {cpu: null}}}, {name: b}]"
	const want = "[map[name:a resources:map[limits:map[memory:1Gi] requests:map[]]] map[name:b]]"
	for name, c := range map[string]struct {
		manifest string
		path     []string
		want     string
	}{
		"Deployment": {
			"apiVersion: apps/v1\nkind: Deployment\nspec: {template: {spec: {containers: %s}}}",
			[]string{"spec", "template", "spec", "containers"}, want,
		},
		"CronJob": {
			"apiVersion: batch/v1\nkind: CronJob\nspec: {jobTemplate: {spec: {template: {spec: {initContainers: %s}}}}}",
			[]string{"spec", "jobTemplate", "spec", "template", "spec", "initContainers"}, want,
		},
		"Pod": {"apiVersion: v1\nkind: Pod\nspec: {containers: %s}", []string{"spec", "containers"}, want},
		"a custom kind": {
			"apiVersion: example.com/v1\nkind: Pod\nspec: {containers: %s}", []string{"spec", "containers"},
			"[map[name:a resources:map[limits:map[cpu:<nil> memory:1Gi] requests:map[cpu:<nil>]]] map[name:b]]",
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			o := manifest(t, fmt.Sprintf(c.manifest, container)+"\nmetadata: {name: a}")
			p, err := apply.Prepare(t.Context(), o, nil, mapper(), nil, marks)
			g.Expect(err).NotTo(HaveOccurred())
			got, _, err := unstructured.NestedSlice(p.Object.Object, c.path...)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(fmt.Sprint(got)).To(Equal(c.want))
		})
	}
}

// A field that is sent empty is owned, and so would be reset after its controller has filled it.
func TestPrepareDropsWhatIsLeftToOthers(t *testing.T) {
	for name, c := range map[string]struct {
		manifest string
		wants    map[string]string // field at the top -> its content
	}{
		"claim":                                 {"apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: a}\nspec: {volumeName: \"\", storageClassName: \"\"}", map[string]string{"spec": "map[storageClassName:]"}},
		"claim with a volume":                   {"apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: a}\nspec: {volumeName: v}", map[string]string{"spec": "map[volumeName:v]"}},
		"volume":                                {"apiVersion: v1\nkind: PersistentVolume\nmetadata: {name: a}\nspec: {claimRef: null}", map[string]string{"spec": "map[]"}},
		"pod":                                   {"apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {nodeName: \"\", tolerations: [], ephemeralContainers: [], volumes: []}", map[string]string{"spec": "map[volumes:[]]"}},
		"node":                                  {"apiVersion: v1\nkind: Node\nmetadata: {name: a}\nspec: {taints: [], podCIDR: \"\", providerID: x}", map[string]string{"spec": "map[providerID:x]"}},
		"namespace":                             {"apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\nspec: {finalizers: []}", map[string]string{"spec": "map[]"}},
		"aggregated role":                       {"apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: a}\nrules: []\naggregationRule: {x: z}", map[string]string{"rules": "<nil>", "aggregationRule": "map[x:z]"}},
		"other role":                            {"apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: a}\nrules: []", map[string]string{"rules": "[]"}},
		"service account token":                 {"apiVersion: v1\nkind: Secret\nmetadata: {name: a}\ntype: kubernetes.io/service-account-token\nstringData: {}", map[string]string{"data": "<nil>"}},
		"service account token with empty keys": {"apiVersion: v1\nkind: Secret\nmetadata: {name: a}\ntype: kubernetes.io/service-account-token\nstringData: {token: \"\", mine: \"\"}\ndata: {ca.crt: null}", map[string]string{"data": "map[mine:]"}},
		"other Secret":                          {"apiVersion: v1\nkind: Secret\nmetadata: {name: a}\ndata: {}", map[string]string{"data": "map[]"}},
		"custom kind Pod":                       {"apiVersion: example.com/v1\nkind: Pod\nmetadata: {name: a}\nspec: {nodeName: \"\"}", map[string]string{"spec": "map[nodeName:]"}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			p, err := apply.Prepare(t.Context(), manifest(t, c.manifest), nil, mapper(), nil, marks)
			g.Expect(err).NotTo(HaveOccurred())
			for field, want := range c.wants {
				g.Expect(fmt.Sprint(p.Object.Object[field])).To(Equal(want), field)
			}
		})
	}
}

// Bundles are shared by all targets that have them, and what is sent shares with them what is the same.
func TestPrepareLeavesTheManifestAlone(t *testing.T) {
	for name, text := range map[string]string{
		"metadata":               "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, uid: x, resourceVersion: '1', managedFields: [], labels: {a: b}, annotations: {c: d}}\ndata: {a: <b>}\nstatus: {}",
		"no metadata of its own": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: b}",
		"templates": "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: a}\nspec: {replicas: 1, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: a}]}}, " +
			"volumeClaimTemplates: [{metadata: {name: a, labels: {a: b}}}, {spec: {}}]}",
		"a template without metadata": "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\nspec: {template: {spec: {}}}",
		"a Secret in plain text":      "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\ndata: {a: Yg==}\nstringData: {c: d}",
		"webhooks": "apiVersion: admissionregistration.k8s.io/v1\nkind: MutatingWebhookConfiguration\nmetadata: {name: a}\n" +
			"webhooks: [{name: a, clientConfig: {url: 'https://x'}}, {name: b, clientConfig: {caBundle: '', url: 'https://y'}}, {name: c, clientConfig: {caBundle: null}}]",
		"quantities of null": "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n" +
			"spec: {containers: [{name: a, resources: {limits: {cpu: null}}}, {name: b}]}",
		"a claim":             "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: a}\nspec: {volumeName: '', resources: {}}",
		"a node":              "apiVersion: v1\nkind: Node\nmetadata: {name: a, namespace: b}\nspec: {taints: [], podCIDR: '', providerID: x}",
		"an aggregated role":  "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: a}\nrules: []\naggregationRule: {x: z}",
		"a definition":        "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: a}\nspec: {group: e.com, conversion: {webhook: {clientConfig: {caBundle: ''}}}}",
		"something to ignore": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, annotations: {resources.gardener.cloud/ignore: 'true'}}\nstatus: {}",
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			o := manifest(t, text)
			before := o.DeepCopy()
			var digests []uint64
			for _, text := range []*manifests.Text{nil, manifests.TextOf(o.Object)} {
				p, err := apply.Prepare(t.Context(), o, text, mapper(), nil, marks)
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(o).To(Equal(before))
				sent, err := text.Append(nil, p.Object.Object)
				g.Expect(err).NotTo(HaveOccurred())
				whole, err := json.Marshal(p.Object.Object)
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(string(sent)).To(Equal(string(whole)))
				digests = append(digests, p.Digest)
			}
			g.Expect(digests[0]).To(Equal(digests[1]), "how it is known does not matter")
		})
	}
}

func BenchmarkPrepare(b *testing.B) {
	o := manifest(b, fmt.Sprintf(deployment, "default"))
	m := mapper()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := apply.Prepare(b.Context(), o, nil, m, nil, marks); err != nil {
			b.Fatal(err)
		}
	}
}
