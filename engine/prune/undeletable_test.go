package prune_test

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/engine/prune"
)

// What belongs to every cluster is not deleted, and not waited for: it loses what was applied, and stays.
func TestWhatNoAPIServerDeletesIsReleased(t *testing.T) {
	for _, test := range []struct {
		apiVersion, kind, name string
		live                   client.Object
	}{
		{"v1", "Namespace", "kube-public", &corev1.Namespace{}},
		{"v1", "Namespace", "kube-node-lease", &corev1.Namespace{}},
		{"scheduling.k8s.io/v1", "PriorityClass", "system-node-critical", &schedulingv1.PriorityClass{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := NewWithT(t)
			get := func() error { return cluster.Client.Get(t.Context(), client.ObjectKey{Name: test.name}, test.live) }
			g.Eventually(get).Should(Succeed())
			uid := test.live.GetUID()
			intent := &unstructured.Unstructured{}
			g.Expect(yaml.Unmarshal(fmt.Appendf(nil, `{apiVersion: %s, kind: %s, metadata: {name: %s, labels: {ours: "1", managed: "1"}, annotations: {%s: %s}}}`,
				test.apiVersion, test.kind, test.name, resourcesv1alpha1.OriginAnnotation, origin), &intent.Object)).To(Succeed())
			g.Expect(cluster.Client.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(intent), client.FieldOwner("trellis"), client.ForceOwnership)).To(Succeed())
			theirs := fmt.Appendf(nil, `{"metadata":{"labels":{"theirs":"1"}}}`)
			g.Expect(cluster.Client.Patch(t.Context(), test.live, client.RawPatch("application/merge-patch+json", theirs),
				client.FieldOwner("another-client"))).To(Succeed())

			p := policy
			p.HolderIn = func(string) string { return "ManagedResource garden/other" }
			out := prune.Objects(t.Context(), access, []resourcesv1alpha1.ObjectReference{reference(test.apiVersion, test.kind, "", test.name, uid)}, p)
			g.Expect(out[0]).To(SatisfyAll(HaveField("Result", prune.Kept), HaveField("Released", true), HaveField("Err", BeNil()),
				HaveField("Reason", ContainSubstring("belongs to every cluster"))))
			g.Expect(get()).To(Succeed())
			g.Expect(test.live.GetDeletionTimestamp()).To(BeNil())
			g.Expect(test.live.GetUID()).To(Equal(uid))
			g.Expect(test.live.GetAnnotations()).NotTo(HaveKey(resourcesv1alpha1.OriginAnnotation))
			g.Expect(test.live.GetLabels()).To(SatisfyAll(HaveKey("theirs"), Not(HaveKey("ours")), Not(HaveKey("managed"))))
			g.Expect(test.live.GetManagedFields()).NotTo(ContainElement(SatisfyAll(
				HaveField("Manager", "trellis"), HaveField("Operation", metav1.ManagedFieldsOperationApply))))
		})
	}
}
