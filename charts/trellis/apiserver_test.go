package chart_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	chart "github.com/trellis-hub/trellis/charts/trellis"
	"github.com/trellis-hub/trellis/hack/controlplane"
)

const namespace = "hub"

// TestOnARealAPIServer shares one API server between its parts, because starting one takes seconds.
func TestOnARealAPIServer(t *testing.T) {
	cp := controlplane.StartForTest(t, controlplane.Options{})
	ctx := t.Context()

	scheme := runtime.NewScheme()
	g := NewWithT(t)
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, resourcesv1alpha1.AddToScheme, hubv1alpha1.AddToScheme,
	} {
		g.Expect(add(scheme)).To(Succeed())
	}
	c, err := client.New(cp.RESTConfig(), client.Options{Scheme: scheme})
	g.Expect(err).NotTo(HaveOccurred())

	install(ctx, g, c)
	t.Run("an object as Gardener writes it comes back unchanged", func(t *testing.T) { roundTrip(ctx, NewWithT(t), c) })
	t.Run("spec and secretRefs", func(t *testing.T) { requiredFields(ctx, NewWithT(t), c) })
	t.Run("a TargetCluster takes conditions", func(t *testing.T) { targetCluster(ctx, NewWithT(t), c) })
	t.Run("a TargetCluster as kubectl shows it", func(t *testing.T) { table(ctx, NewWithT(t), c, cp) })
	t.Run("rights of the hub", func(t *testing.T) { rights(ctx, NewWithT(t), c) })
}

func install(ctx context.Context, g *WithT, c client.Client) {
	g.Expect(c.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})).To(Succeed())
	for _, crd := range chart.CRDs() {
		g.Expect(c.Create(ctx, crd)).To(Succeed())
	}
	for _, object := range append(chart.HubIdentity(namespace), chart.SourceIdentity(namespace)...) {
		g.Expect(c.Create(ctx, object)).To(Succeed())
	}
	for _, list := range []client.ObjectList{&resourcesv1alpha1.ManagedResourceList{}, &hubv1alpha1.TargetClusterList{}} {
		g.Eventually(func() error { return c.List(ctx, list) }, 3*time.Minute, 100*time.Millisecond).Should(Succeed())
	}
}

func roundTrip(ctx context.Context, g *WithT, c client.Client) {
	content := map[string]any{
		"apiVersion": "resources.gardener.cloud/v1alpha1",
		"kind":       "ManagedResource",
		"metadata":   map[string]any{"namespace": namespace, "name": "full"},
		"spec": map[string]any{
			"class":                        "seed",
			"secretRefs":                   []any{map[string]any{"name": "a"}, map[string]any{"name": ""}},
			"injectLabels":                 map[string]any{"a": "b"},
			"forceOverwriteLabels":         true,
			"forceOverwriteAnnotations":    false,
			"keepObjects":                  true,
			"equivalences":                 []any{[]any{map[string]any{"group": "", "kind": "A"}, map[string]any{"group": "g", "kind": "A"}}},
			"deletePersistentVolumeClaims": true,
		},
	}
	mr := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(content)}
	g.Expect(c.Create(ctx, mr)).To(Succeed())
	g.Expect(mr.Object["spec"]).To(Equal(content["spec"]))

	status := map[string]any{
		"conditions": []any{map[string]any{
			"type": "ResourcesApplied", "status": "Progressing", "reason": "any reason at all", "message": "",
			"lastTransitionTime": "2026-03-01T12:00:00Z", "lastUpdateTime": "2026-03-01T12:00:00Z", "codes": []any{"ERR"},
		}},
		"observedGeneration": int64(1),
		"resources": []any{map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap", "namespace": "a", "name": "b", "uid": "c",
			"labels": map[string]any{"d": "e"}, "annotations": map[string]any{"f": "g"},
		}},
		"secretsDataChecksum": "abc",
	}
	mr.Object["status"] = runtime.DeepCopyJSON(status)
	g.Expect(c.Status().Update(ctx, mr)).To(Succeed())
	g.Expect(mr.Object["status"]).To(Equal(status))

	typed := &resourcesv1alpha1.ManagedResource{}
	g.Expect(c.Get(ctx, client.ObjectKeyFromObject(mr), typed)).To(Succeed())
	g.Expect(c.Update(ctx, typed)).To(Succeed())
	g.Expect(c.Get(ctx, client.ObjectKeyFromObject(mr), mr)).To(Succeed())
	g.Expect(mr.Object["spec"]).To(Equal(content["spec"]), "after it went through the types")
	g.Expect(mr.Object["status"]).To(Equal(status))
}

func requiredFields(ctx context.Context, g *WithT, c client.Client) {
	create := func(name string, spec any) error {
		mr := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"namespace": namespace, "name": name}}}
		mr.SetGroupVersionKind(resourcesv1alpha1.GroupVersion.WithKind("ManagedResource"))
		if spec != nil {
			mr.Object["spec"] = spec
		}
		return c.Create(ctx, mr)
	}
	g.Expect(create("no-spec", nil)).To(Succeed())
	g.Expect(create("empty-list", map[string]any{"secretRefs": []any{}})).To(Succeed())
	g.Expect(create("no-list", map[string]any{})).To(MatchError(ContainSubstring("spec.secretRefs: Required value")))
}

func targetCluster(ctx context.Context, g *WithT, c client.Client) {
	tc := &hubv1alpha1.TargetCluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "a"}}
	g.Expect(c.Create(ctx, tc)).To(Succeed())
	tc.Status = hubv1alpha1.TargetClusterStatus{
		Conditions:       []metav1.Condition{{Type: hubv1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: hubv1alpha1.ReasonReady, LastTransitionTime: metav1.Now()}},
		ManagedResources: &hubv1alpha1.ManagedResourceCounts{Total: 1},
	}
	g.Expect(c.Status().Update(ctx, tc)).To(Succeed())
}

// table asks for a TargetCluster in the way that kubectl does.
func table(ctx context.Context, g *WithT, c client.Client, cp *controlplane.ControlPlane) {
	tc := &hubv1alpha1.TargetCluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "table", Labels: map[string]string{hubv1alpha1.StatusLabel: hubv1alpha1.StatusProgressing}}}
	g.Expect(c.Create(ctx, tc)).To(Succeed())
	clientset, err := kubernetes.NewForConfig(cp.RESTConfig())
	g.Expect(err).NotTo(HaveOccurred())
	answer, err := clientset.RESTClient().Get().AbsPath("/apis/hub.gardener.cloud/v1alpha1/namespaces/"+namespace+"/targetclusters/table").
		SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").DoRaw(ctx)
	g.Expect(err).NotTo(HaveOccurred())
	shown := &metav1.Table{}
	g.Expect(json.Unmarshal(answer, shown)).To(Succeed())
	cells := map[string]any{}
	for i, column := range shown.ColumnDefinitions {
		cells[column.Name] = shown.Rows[0].Cells[i]
	}
	g.Expect(cells).To(HaveKeyWithValue("Status", "progressing"))
}

// rights asks the API server what the two identities may do.
func rights(ctx context.Context, g *WithT, c client.Client) {
	type access = authorizationv1.ResourceAttributes
	tests := map[string]struct {
		account string
		access  access
		allowed bool
	}{
		"read Secrets": {chart.ServiceAccount, access{Verb: "list", Resource: "secrets"}, true},
		"not write Secrets": {chart.ServiceAccount, access{Verb: "update", Resource: "secrets", Namespace: "a",
			Name: "b"}, false},
		"patch a status": {chart.ServiceAccount, access{Verb: "patch", Group: "resources.gardener.cloud",
			Resource: "managedresources", Subresource: "status", Namespace: "a", Name: "b"}, true},
		"not delete ManagedResources": {chart.ServiceAccount, access{Verb: "delete", Group: "resources.gardener.cloud",
			Resource: "managedresources", Namespace: "a", Name: "b"}, false},
		"watch the leases of GRM": {chart.ServiceAccount, access{Verb: "watch", Group: "coordination.k8s.io",
			Resource: "leases", Name: "gardener-resource-manager"}, true},
		"not watch all leases": {chart.ServiceAccount, access{Verb: "watch", Group: "coordination.k8s.io",
			Resource: "leases"}, false},
		"renew its own lease": {chart.ServiceAccount, access{Verb: "update", Group: "coordination.k8s.io",
			Resource: "leases", Namespace: namespace, Name: "trellis"}, true},
		"renew its heartbeat": {chart.ServiceAccount, access{Verb: "update", Group: "coordination.k8s.io",
			Resource: "leases", Namespace: namespace, Name: "trellis-heartbeat"}, true},
		"not touch other leases": {chart.ServiceAccount, access{Verb: "update", Group: "coordination.k8s.io",
			Resource: "leases", Namespace: namespace, Name: "another-lease"}, false},
		"not read other leases": {chart.ServiceAccount, access{Verb: "get", Group: "coordination.k8s.io",
			Resource: "leases", Namespace: namespace, Name: "another-lease"}, false},
		"label TargetClusters": {chart.ServiceAccount, access{Verb: "patch", Group: "hub.gardener.cloud",
			Resource: "targetclusters", Namespace: "a", Name: "b"}, true},
		"become the second identity": {chart.ServiceAccount, access{Verb: "create", Resource: "serviceaccounts",
			Subresource: "token", Namespace: namespace, Name: chart.SourceServiceAccount}, true},
		"not become another account": {chart.ServiceAccount, access{Verb: "create", Resource: "serviceaccounts",
			Subresource: "token", Namespace: "kube-system", Name: "admin"}, false},
		"not write workloads":             {chart.ServiceAccount, access{Verb: "patch", Group: "apps", Resource: "deployments", Namespace: namespace}, false},
		"the second identity writes them": {chart.SourceServiceAccount, access{Verb: "patch", Group: "apps", Resource: "deployments", Namespace: "a"}, true},
	}
	for name, test := range tests {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User:               "system:serviceaccount:" + namespace + ":" + test.account,
			Groups:             []string{"system:serviceaccounts", "system:authenticated"},
			ResourceAttributes: &test.access,
		}}
		g.Expect(c.Create(ctx, review)).To(Succeed())
		g.Expect(review.Status.Allowed).To(Equal(test.allowed), name)
	}
}
