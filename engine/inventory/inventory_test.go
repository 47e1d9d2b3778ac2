package inventory_test

import (
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime/schema"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/engine/inventory"
)

func ref(apiVersion, kind, namespace, name string) resourcesv1alpha1.ObjectReference {
	r := resourcesv1alpha1.ObjectReference{}
	r.APIVersion, r.Kind, r.Namespace, r.Name = apiVersion, kind, namespace, name
	return r
}

func TestOrderOfTheInventory(t *testing.T) {
	g := NewWithT(t)
	refs := []resourcesv1alpha1.ObjectReference{
		ref("v1", "Namespace", "", "a"),
		ref("apps/v1", "Deployment", "b", "x"),
		ref("v1", "ConfigMap", "default", "a"),
		ref("rbac.authorization.k8s.io/v1", "ClusterRole", "", "a"),
		ref("v1", "ConfigMap", "a", "z"),
	}
	inventory.Sort(refs)
	var names []string
	for _, r := range refs {
		names = append(names, inventory.Describe(r))
	}
	// The group decides first, the core group being the empty string; a cluster-scoped object counts as in "default".
	g.Expect(names).To(Equal([]string{
		"v1/ConfigMap/a/z", "v1/ConfigMap/default/a", "v1/Namespace//a", "apps/v1/Deployment/b/x", "rbac.authorization.k8s.io/v1/ClusterRole//a",
	}))
}

func TestKeyIgnoresTheVersion(t *testing.T) {
	g := NewWithT(t)
	g.Expect(inventory.KeyOf(ref("policy/v1", "PodDisruptionBudget", "a", "b"))).To(Equal(inventory.KeyOf(ref("policy/v1beta1", "PodDisruptionBudget", "a", "b"))))
	g.Expect(inventory.KeyOf(ref("v1", "ConfigMap", "", "b"))).NotTo(Equal(inventory.KeyOf(ref("v1", "ConfigMap", "default", "b"))))
}

func TestUnionLosesNothing(t *testing.T) {
	g := NewWithT(t)
	old := []resourcesv1alpha1.ObjectReference{ref("v1", "ConfigMap", "a", "kept"), ref("v1", "ConfigMap", "a", "dropped")}
	old[0].UID, old[0].Labels = "uid", map[string]string{"old": "label"}
	desired := []resourcesv1alpha1.ObjectReference{ref("v1", "ConfigMap", "a", "new"), ref("v1", "ConfigMap", "a", "kept")}
	desired[1].Labels = map[string]string{"new": "label"}

	union := inventory.Union(old, desired)
	g.Expect(union).To(HaveLen(3))
	kept := inventory.Index(union)[inventory.KeyOf(desired[1])]
	g.Expect(kept.UID).To(BeEquivalentTo("uid"))
	g.Expect(kept.Labels).To(Equal(map[string]string{"old": "label"}), "the merge base stays until the object is applied")
	g.Expect(old).To(HaveLen(2))
}

func TestStages(t *testing.T) {
	g := NewWithT(t)
	order := []schema.GroupKind{
		{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"},
		{Kind: "ServiceAccount"},
		{Group: "rbac.authorization.k8s.io", Kind: "ClusterRoleBinding"},
		{Group: "apps", Kind: "Deployment"},
		{Group: "example.com", Kind: "Service"},
		{Group: "admissionregistration.k8s.io", Kind: "ValidatingWebhookConfiguration"},
	}
	for i := 1; i < len(order); i++ {
		g.Expect(inventory.StageOf(order[i-1])).To(BeNumerically("<", inventory.StageOf(order[i])), "%s before %s", order[i-1], order[i])
	}
	g.Expect(inventory.StageOf(schema.GroupKind{Kind: "Namespace"})).To(Equal(inventory.StageFoundation))
	g.Expect(inventory.StageOf(schema.GroupKind{Group: "networking.k8s.io", Kind: "NetworkPolicy"})).To(Equal(inventory.StageConfig))
	g.Expect(inventory.StageOf(schema.GroupKind{Group: "networking.k8s.io", Kind: "Ingress"})).To(Equal(inventory.StageWorkload))
}
