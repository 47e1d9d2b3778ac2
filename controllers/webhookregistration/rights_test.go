package webhookregistration

import (
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	chart "github.com/trellis-hub/trellis/charts/trellis"
	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/hack/testbed/twins"
	"github.com/trellis-hub/trellis/webhooks"
	"github.com/trellis-hub/trellis/webhooks/deletionprotection"
)

// allByCalls are settings by which all webhooks of one cluster are called that others run in.
const allByCalls = `{
registration: {scope: Runtime}, projectedTokenMount: {enabled: true}, highAvailabilityConfig: {enabled: true},
podSchedulerName: {enabled: true, schedulerName: packing, mode: Webhook},
seccompProfile: {enabled: true, mode: Webhook}, kubernetesServiceHost: {enabled: true, host: api.r, mode: Webhook},
podKubeAPIServerLoadBalancing: {enabled: true}, systemComponentsConfig: {enabled: true},
podTopologySpreadConstraints: {enabled: true}, vpaInPlaceUpdates: {enabled: true, mode: Webhook},
endpointSliceHints: {enabled: true, mode: Webhook}, tokenInvalidator: {enabled: true},
crdDeletionProtection: {enabled: true, mode: Webhook}, extensionValidation: {enabled: true}}`

// HUB-24: what charts/trellis/rbac/target-webhooks.yaml lists is enough for all webhooks, and for policies.
func TestRightsInTargets(t *testing.T) {
	b := newBench(t, nil)
	b.others = webhooks.All(deletionprotection.NewLister(shared.Clusters))
	kubeconfig, err := shared.B.Restricted(b.ctx, "webhooks-only", chart.TargetWebhooks()...)
	b.Expect(err).NotTo(HaveOccurred())
	in := &twins.Target{
		ControlPlane: shared.B.ControlPlane, Client: shared.B.Client,
		Key: clustercache.ClusterKey{Namespace: "shoot-rights", Name: "rights"},
	}
	b.Expect(shared.Register(b.ctx, in.Key, kubeconfig)).To(Succeed())
	b.Expect(source.Create(b.ctx, &hubv1alpha1.TargetCluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: in.Key.Namespace, Name: in.Key.Name},
	})).To(Succeed())

	const space = "shoot--rights"
	in.Create(t, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "tainted"},
		Spec:       corev1.NodeSpec{Taints: []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoSchedule}}},
	})
	b.Expect(in.Client.Create(b.ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: space, Labels: map[string]string{
			"gardener.cloud/role": "shoot", "high-availability-config.resources.gardener.cloud/consider": "true",
			"system-components-config.resources.gardener.cloud/consider": "true",
		},
	}})).To(Succeed())
	of := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: space, Name: name} }
	for _, object := range []client.Object{
		&corev1.ServiceAccount{ObjectMeta: of("a"), AutomountServiceAccountToken: ptr.To(false)},
		&corev1.ConfigMap{ObjectMeta: of("istio-internal-load-balancing"), Data: map[string]string{
			"hosts": "api.example", "istio-namespace": space,
		}},
		&corev1.Service{ObjectMeta: of("istio-ingressgateway-internal"), Spec: corev1.ServiceSpec{
			Ports: []corev1.ServicePort{{Port: 443}},
		}},
	} {
		in.Create(t, object)
	}
	b.infrastructures(in)
	b.serve(b.listener)
	b.setYAML(in, allByCalls)
	b.start(nil)
	b.Eventually(b.condition(in)).Should(Equal(registered))

	user := b.stranger(in)
	made := func() *corev1.Pod {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: space, GenerateName: "a-"},
			Spec: corev1.PodSpec{
				ServiceAccountName: "a", Containers: []corev1.Container{{Name: "c", Image: "i"}},
				Volumes: []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
					Secret: &corev1.SecretVolumeSource{SecretName: "generic-token-kubeconfig"},
				}}},
			},
		}
		b.Expect(user.Create(b.ctx, pod, client.DryRunAll)).To(Succeed())
		return pod
	}
	b.Eventually(made).Should(HaveField("Spec.SchedulerName", "packing"))
	pod := made()
	b.Expect(pod.Spec.Volumes).To(ContainElement(HaveField("Name", "kube-api-access-gardener")))
	b.Expect(pod.Spec.Tolerations).To(ContainElement(HaveField("Key", "k")))
	b.Expect(pod.Spec.HostAliases).To(ConsistOf(HaveField("Hostnames", []string{"api.example"})))
	workload := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: space, GenerateName: "a-", Labels: map[string]string{
			"high-availability-config.resources.gardener.cloud/type": "server",
		}},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To[int32](1), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "a"}},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "a"}},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
			},
		},
	}
	b.Expect(user.Create(b.ctx, workload, client.DryRunAll)).To(Succeed())
	b.Expect(workload.Spec.Replicas).To(HaveValue(BeEquivalentTo(2)))
	for _, name := range []string{"a", "b"} {
		object := infrastructure(name, "eu")
		object.SetAnnotations(map[string]string{deletionprotection.ConfirmationAnnotation: "true"})
		b.Expect(user.Create(b.ctx, object)).To(Succeed())
	}
	b.Expect(user.DeleteAllOf(b.ctx, infrastructure("", ""), client.InNamespace("default"))).To(Succeed())

	b.setYAML(in, threeReplaced)
	b.Eventually(func() []string { return b.policies(in) }).Should(HaveLen(8))
	b.Eventually(b.condition(in)).Should(Equal(registered))
	b.switchOff(in)
	b.Eventually(b.condition(in)).Should(BeEmpty())
	b.Expect(b.policies(in)).To(BeEmpty())
}
