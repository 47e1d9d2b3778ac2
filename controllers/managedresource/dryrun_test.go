package managedresource_test

import (
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/hack/controlplane"
	"github.com/trellis-hub/trellis/hack/testbed"
)

func TestDryRunPlansAndWritesNothing(t *testing.T) {
	t.Parallel()
	p := unregistered(t, nil)
	differs := p.configMap("differs")
	differs.Data = map[string]string{"key": "of another client"}
	p.inTarget(differs)
	p.content("content", testbed.ConfigMap(p.ns, "new", "1"), testbed.ConfigMap(p.ns, "newer", "1"),
		testbed.ConfigMap(p.ns, "differs", "1"))
	mr := testbed.ManagedResource(p.ns, "mr", "content")
	mr.Spec.Class = ptr.To("planned")
	deleted := testbed.ManagedResource(p.ns, "deleted", "content")
	deleted.Spec.Class = ptr.To("planned")
	deleted.Finalizers = []string{resourcesv1alpha1.Finalizer("planned")}
	asked := testbed.ManagedResource(p.ns, "asked", "nothing")
	asked.Spec.Class = ptr.To("planned")
	asked.Annotations = map[string]string{resourcesv1alpha1.OperationAnnotation: resourcesv1alpha1.OperationReconcile}
	p.inSource(mr, deleted, asked)
	p.deleteMR("deleted")
	deleted = p.get("deleted")
	registration := testbed.Registration(p.ns, "a", target.Kubeconfig())
	registration.Labels[hubv1alpha1.ClassLabel] = "planned"
	p.inSource(registration)

	report := func() *hubv1alpha1.DryRunReport { return p.targetCluster("a").Status.DryRun }
	p.Eventually(report).Should(HaveValue(SatisfyAll(HaveField("Creates", int32(2)), HaveField("Updates", int32(1)))), func() string { return hub.Log.About(p.ns) })

	// It follows the content and the target.
	p.inTarget(p.object(testbed.ConfigMap(p.ns, "new", "1")))
	p.content("content", testbed.ConfigMap(p.ns, "new", "1"), testbed.ConfigMap(p.ns, "differs", "1"))
	p.Eventually(report).Should(HaveValue(SatisfyAll(HaveField("Creates", int32(0)), HaveField("Updates", int32(2)))), func() string { return hub.Log.About(p.ns) })

	p.Expect(p.get("mr")).To(Equal(mr))
	p.Expect(p.get("deleted")).To(Equal(deleted))
	p.Expect(p.get("asked")).To(Equal(asked))
	p.expectAbsent(p.configMap("newer"))
	p.Expect(read(p, p.configMap("differs"))).To(Equal(differs))
	p.Expect(p.requests(source, func(e controlplane.AuditEntry) bool { return p.writes(e) && e.Resource != "targetclusters" })).To(BeEmpty())
	writes := p.requests(target, p.writes)
	p.Expect(writes).NotTo(BeEmpty(), "the server is asked what it would do")
	for _, w := range writes {
		p.Expect(strings.Contains(w, "dryRun=All")).To(BeTrue(), fmt.Sprint(writes))
	}
}

func TestDryRunDoesNotRevealTheContentOfASecret(t *testing.T) {
	t.Parallel()
	p := unregistered(t, nil)
	p.inTarget(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: p.ns, Name: "secret"}})
	p.content("content", fmt.Sprintf(
		`{"apiVersion":"v1","kind":"Secret","metadata":{"namespace":%q,"name":"secret"},"type":%q}`, p.ns, marker))
	mr := testbed.ManagedResource(p.ns, "mr", "content")
	mr.Spec.Class = ptr.To("planned")
	p.inSource(mr)
	registration := testbed.Registration(p.ns, "a", target.Kubeconfig())
	registration.Labels[hubv1alpha1.ClassLabel] = "planned"
	p.inSource(registration)
	p.Eventually(func() string { return hub.Log.About(p.ns) }).Should(SatisfyAll(
		ContainSubstring("the apply would fail"), ContainSubstring("(not shown)")))
	p.expectNoLeak()
}

// What a real run leaves to other writers or owners is no change in a plan either.
func TestDryRunPlansNoMoreThanARunWouldDo(t *testing.T) {
	t.Parallel()
	p := unregistered(t, nil)
	origin := map[string]string{resourcesv1alpha1.OriginAnnotation: p.ns + "/mr"}
	kept := map[string]string{resourcesv1alpha1.OriginAnnotation: p.ns + "/mr", resourcesv1alpha1.KeepObjectAnnotation: "true"}
	old, keep, foreign := p.configMap("old"), p.configMap("keep"), p.configMap("foreign")
	old.Annotations, keep.Annotations = origin, kept
	foreign.Annotations = map[string]string{resourcesv1alpha1.OriginAnnotation: "other/mr"}
	p.inTarget(old, keep, foreign)
	// As it was applied, then scaled.
	scaled := p.object(p.deploymentManifest("scaled", `{"resources.gardener.cloud/preserve-replicas":"true","`+resourcesv1alpha1.OriginAnnotation+`":"`+p.ns+`/mr"}`))
	scaled.SetLabels(map[string]string{resourcesv1alpha1.ManagedByLabel: "gardener"})
	p.Expect(unstructured.SetNestedField(scaled.Object, "gardener", "spec", "template", "metadata", "labels", resourcesv1alpha1.ManagedByLabel)).To(Succeed())
	p.inTarget(scaled)
	p.Expect(target.Client.Patch(p.ctx, scaled, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":7}}`)))).To(Succeed())

	p.content("content", p.deploymentManifest("scaled", `{"resources.gardener.cloud/preserve-replicas":"true"}`))
	mr := testbed.ManagedResource(p.ns, "mr", "content")
	mr.Spec.Class = ptr.To("planned")
	p.inSource(mr)
	for _, name := range []string{"old", "keep", "foreign", "absent"} {
		mr.Status.Resources = append(mr.Status.Resources, resourcesv1alpha1.ObjectReference{
			ObjectReference: corev1.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: p.ns, Name: name},
		})
	}
	p.Expect(source.Client.Status().Update(p.ctx, mr)).To(Succeed())
	registration := testbed.Registration(p.ns, "a", target.Kubeconfig())
	registration.Labels[hubv1alpha1.ClassLabel] = "planned"
	p.inSource(registration)
	report := func() *hubv1alpha1.DryRunReport { return p.targetCluster("a").Status.DryRun }
	p.Eventually(report).Should(HaveValue(SatisfyAll(
		HaveField("Creates", int32(0)), HaveField("Updates", int32(0)), HaveField("Deletes", int32(1)))), func() string { return hub.Log.About(p.ns) })
}
