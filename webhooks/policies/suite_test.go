package policies_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/hack/controlplane"
	"github.com/trellis-hub/trellis/hack/testbed"
	"github.com/trellis-hub/trellis/webhooks/admission"
	"github.com/trellis-hub/trellis/webhooks/policies"
)

// target is an API server that evaluates policies.
var target *testbed.Cluster

func TestMain(m *testing.M) {
	flag.Parse()
	if testing.Short() {
		os.Exit(m.Run()) // tests that need it are skipped
	}
	var err error
	if target, err = testbed.StartCluster(context.Background(), controlplane.Options{Name: "policies"}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	target.Stop()
	os.Exit(code)
}

func needsTarget(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a control plane, skipped by -short")
	}
}

// parsed is an object in YAML.
func parsed(t testing.TB, text string) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{}
	NewWithT(t).Expect(yaml.Unmarshal([]byte(text), &object.Object)).To(Succeed())
	return object
}

// namespace creates one with labels, if it is not there, until the test ends.
func namespace(t *testing.T, name string, labels map[string]string) {
	t.Helper()
	g := NewWithT(t)
	object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if target.Client.Get(t.Context(), client.ObjectKeyFromObject(object), object) == nil {
		return
	}
	object.Labels = labels
	g.Expect(target.Client.Create(t.Context(), object)).To(Succeed())
}

// created is what an object becomes when it is created, without being stored.
func created(t *testing.T, object *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	g := NewWithT(t)
	var result *unstructured.Unstructured
	var err error
	// A mutating policy needs the schema of a kind, which the API server takes a while to learn after its CRD.
	g.Eventually(func() bool {
		result = object.DeepCopy()
		err = target.Client.Create(context.Background(), result, client.DryRunAll)
		return apierrors.IsServiceUnavailable(err)
	}).Should(BeFalse())
	g.Expect(err).NotTo(HaveOccurred())
	for _, volatile := range []string{"uid", "creationTimestamp", "managedFields", "generation", "resourceVersion",
		"selfLink"} {
		unstructured.RemoveNestedField(result.Object, "metadata", volatile)
	}
	return result
}

// install has the API server evaluate the policies of a webhook until the test ends. works reports whether it does so:
// API servers take a while.
func install(t *testing.T, w admission.Webhook, settings *hubv1alpha1.TargetWebhooks, works func() bool) {
	t.Helper()
	g := NewWithT(t)
	objects := policies.Of("test-", w, settings)
	g.Expect(objects).NotTo(BeEmpty())
	for _, object := range objects {
		g.Expect(target.Client.Create(t.Context(), object)).To(Succeed())
	}
	t.Cleanup(func() {
		for _, object := range objects {
			g.Expect(target.Client.Delete(context.Background(), object)).To(Succeed())
		}
		g.Eventually(works).Should(BeFalse()) // or what comes next would meet it
	})
	g.Eventually(works).Should(BeTrue(), func() string {
		var text strings.Builder
		for _, object := range objects {
			document, _ := json.Marshal(object) // it is for a message
			text.Write(document)
		}
		return text.String()
	})
}

// define creates the CRD of a kind that keeps all fields.
func define(
	t *testing.T, group, version, kind, plural string, labels map[string]string,
) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	g := NewWithT(t)
	crd := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: plural + "." + group, Labels: labels, Annotations: map[string]string{}},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: group, Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: kind, ListKind: kind + "List", Plural: plural,
				Singular: strings.ToLower(kind)},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: version, Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object", XPreserveUnknownFields: ptr.To(true),
				}},
			}},
		},
	}
	if strings.HasSuffix(group, ".k8s.io") {
		crd.Annotations[apiextensionsv1.KubeAPIApprovedAnnotation] = "unapproved, for a test"
	}
	g.Expect(target.Client.Create(t.Context(), crd)).To(Succeed())
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion(group + "/" + version)
	list.SetKind(kind + "List")
	g.Eventually(func() error { return target.Client.List(t.Context(), list) }).Should(Succeed())
	return crd
}
