package chart

import (
	"context"
	"os"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/trellis-hub/trellis/hack/helm"
)

// TestInstallationForASeedOfGardener installs the chart with the values of the Gardener preset, and expects ready
// pods of the priority that only a seed knows.
func TestInstallationForASeedOfGardener(t *testing.T) {
	g, ctx := NewWithT(t), t.Context()
	cli := helm.ForTest(t).WithCluster(t, source.Kubeconfig())
	newNamespace(ctx, g, "seed")
	values, err := os.ReadFile(cli.Chart() + "/values-gardener.yaml")
	g.Expect(err).NotTo(HaveOccurred())
	_, err = cli.Run(ctx, string(values), "install", "trellis", cli.Chart(), "--namespace", "seed", takeOver, "--wait",
		"--timeout", "4m")
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { uninstall(t, cli, "seed") })
	deployment := &appsv1.Deployment{}
	g.Expect(source.Client.Get(ctx, types.NamespacedName{Namespace: "seed", Name: "trellis"}, deployment)).To(Succeed())
	g.Expect(deployment.Status.AvailableReplicas).To(BeEquivalentTo(2))
	g.Expect(deployment.Spec.Template.Spec.PriorityClassName).To(Equal("gardener-system-critical"))
}

// TestWhatIsRenderedCanBeApplied applies what "helm template" shows, as it is and in its order, and expects ready pods.
func TestWhatIsRenderedCanBeApplied(t *testing.T) {
	g, ctx := NewWithT(t), t.Context()
	newNamespace(ctx, g, "rendered")
	cli := helm.ForTest(t)
	out, err := cli.Run(ctx, "{fullnameOverride: rendered}", "template", "trellis", cli.Chart(), "--namespace", "rendered")
	g.Expect(err).NotTo(HaveOccurred())
	crds := 0
	for document := range strings.SplitSeq(out, "\n---\n") {
		obj := &unstructured.Unstructured{}
		g.Expect(yaml.Unmarshal([]byte(document), &obj.Object)).To(Succeed())
		if len(obj.Object) == 0 {
			continue
		}
		apply := client.ApplyConfigurationFromUnstructured(obj)
		owner := []client.ApplyOption{client.FieldOwner("kubectl"), client.ForceOwnership}
		g.Eventually(func() error { return source.Client.Apply(ctx, apply, owner...) }).
			Should(Succeed(), "%s %s", obj.GetKind(), obj.GetName())
		if obj.GetKind() == "CustomResourceDefinition" {
			crds++
			continue
		}
		t.Cleanup(func() { g.Expect(source.Client.Delete(context.WithoutCancel(ctx), obj)).To(Succeed()) })
	}
	g.Expect(crds).To(Equal(2))
	deployment := &appsv1.Deployment{}
	g.Eventually(func() (int32, error) {
		err := source.Client.Get(ctx, types.NamespacedName{Namespace: "rendered", Name: "rendered"}, deployment)
		return deployment.Status.AvailableReplicas, err
	}).Should(BeEquivalentTo(2))
}
