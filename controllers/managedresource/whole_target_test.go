package managedresource_test

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/hack/controlplane"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// A target is served as a whole: objects in any namespace, of built-in kinds and others, are applied, judged and kept,
// and autoscalers are seen there.
func TestW13_ObjectsInAnyNamespace(t *testing.T) {
	t.Parallel()
	p := registered(t)
	far := p
	far.ns = testbed.Namespace(t, nil, target)
	p.content("content", testbed.ConfigMap(p.ns, "here", "1"), testbed.ConfigMap(far.ns, "there", "1"),
		far.deploymentManifest("app", "{}"),
		p.crd("Namespaced"), p.plant("rose", fmt.Sprintf(`,"namespace":%q`, far.ns), 1))
	p.mr("mr", "content")
	p.await("mr", has(applied, yes, resourcesv1alpha1.ReasonApplySucceeded), observed(), has(healthy, no, "DeploymentUnhealthy", far.ns+"/app"))

	rose := far.livePlant("rose", far.ns)
	rose.SetGroupVersionKind(p.livePlant("rose", far.ns).GroupVersionKind())
	p.edit(target, rose, func() { rose.Object["spec"] = map[string]any{"height": int64(9)} })
	p.Eventually(func() any { return at(read(p, rose).Object, "spec.height") }).Should(Equal(int64(1)), func() string { return hub.Log.About(p.ns) })
	there := far.configMap("there")
	p.Expect(target.Client.Delete(p.ctx, there)).To(Succeed())
	far.awaitValue("there", "1")

	far.inTarget(&autoscalingv1.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: far.ns, Name: "app"},
		Spec: autoscalingv1.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv1.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "app"}, MaxReplicas: 9,
		},
	})
	replicas := func(d *appsv1.Deployment) int32 { return *d.Spec.Replicas }
	p.Eventually(func() int32 {
		d := far.deployment("app")
		p.edit(target, d, func() { d.Spec.Replicas = ptr.To(int32(7)) })
		p.fence()
		return replicas(read(p, d))
	}).Should(Equal(int32(7)), "the replicas are the autoscaler's from the moment it is seen")

	p.deleteMR("mr")
	p.awaitAbsent(far.configMap("there"))
}

// What the hub watches in a target is what it applied there, not all that is there.
func TestW12_WatchesAskForWhatIsManaged(t *testing.T) {
	t.Parallel()
	p := registered(t)
	p.content("content", testbed.ConfigMap(p.ns, "one", "1"), p.deploymentManifest("app", "{}"), p.crd("Namespaced"),
		p.plant("rose", fmt.Sprintf(`,"namespace":%q`, p.ns), 1),
		fmt.Sprintf(`{"apiVersion":"v1","kind":"Secret","metadata":{"namespace":%q,"name":"sec"},"stringData":{"a":"1"}}`, p.ns))
	p.mr("mr", "content")
	p.awaitApplied("mr")

	kinds := []string{"configmaps", "secrets", "deployments", "customresourcedefinitions", "plants"}
	p.Eventually(func(g Gomega) {
		var seen []string
		p.requests(target, func(e controlplane.AuditEntry) bool {
			if e.Verb != "watch" || !slices.Contains(kinds, e.Resource) {
				return false
			}
			seen = append(seen, e.Resource)
			uri, err := url.Parse(e.RequestURI)
			g.Expect(err).NotTo(HaveOccurred())
			labels, fields := uri.Query().Get("labelSelector"), uri.Query().Get("fieldSelector")
			one := strings.HasPrefix(fields, "metadata.name=") // an object that bears no label of ours, because it is to be ignored
			g.Expect(labels == resourcesv1alpha1.ManagedByLabel+"=gardener" || one).To(BeTrue(), e.String())
			return false
		})
		g.Expect(seen).To(ContainElements(kinds))
	}).Should(Succeed())
}
