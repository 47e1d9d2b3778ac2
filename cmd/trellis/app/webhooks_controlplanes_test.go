package app_test

import (
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1alpha1 "github.com/trellis-hub/trellis/apis/config/v1alpha1"
	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/hack/testbed"
	"github.com/trellis-hub/trellis/webhooks/controlplane"
	"github.com/trellis-hub/trellis/webhooks/controlplane/example"
)

// ofProviders has the hub serve the webhooks of providers in the source.
func ofProviders(providers ...string) func(*configv1alpha1.HubConfiguration) {
	return func(c *configv1alpha1.HubConfiguration) {
		for i := range c.Classes {
			if class := &c.Classes[i]; class.Target.Type == configv1alpha1.TargetSource {
				class.Webhooks.ControlPlanes = &hubv1alpha1.ControlPlanesWebhook{
					Webhook: hubv1alpha1.Webhook{Enabled: ptr.To(true)}, Providers: providers,
				}
			}
		}
	}
}

// controllerManager is as Gardener deploys it.
func controllerManager(namespace string, labels map[string]string) *appsv1.Deployment {
	selector := map[string]string{"app": "kubernetes"}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "kube-controller-manager", Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To[int32](0), Selector: &metav1.LabelSelector{MatchLabels: selector},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: selector},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{
					Name: "kube-controller-manager", Image: "i", Command: []string{"kube-controller-manager"},
				}}},
			},
		},
	}
}

// CPW-1, CPW-2: the hub serves a provider's webhooks to the source, for the namespaces of its control planes.
func TestControlPlanesInTheSource(t *testing.T) {
	e := newEnv(t)
	shoot := e.name + "-shoot"
	e.Expect(source.Client.Create(e.ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: shoot, Labels: map[string]string{
			"shoot.gardener.cloud/provider": example.Name, "seed.gardener.cloud/provider": example.Name,
		},
	}})).To(Succeed())
	hub := e.startHub(serveWebhooks(e), ofProviders(example.Name))
	e.Eventually(e.configurations(source)).Should(Equal(2), "%s", hub.Log)

	mutated := map[string]string{controlplane.MutatedLabel: "true"}
	created := func(namespace string, labels map[string]string) ([]string, error) {
		d := controllerManager(namespace, labels)
		if err := source.Client.Create(e.ctx, d); err != nil {
			return nil, err
		}
		command := d.Spec.Template.Spec.Containers[0].Command
		return command, source.Client.Delete(e.ctx, d)
	}
	// Entries whose policy is Fail come when the API server has called the hub.
	e.Eventually(func() ([]string, error) { return created(shoot, mutated) }).Should(
		HaveExactElements("kube-controller-manager", "--cloud-provider=external",
			"--cloud-config=/etc/kubernetes/cloudprovider/cloudprovider.conf"), "%s", hub.Log)
	e.Expect(created(shoot, nil)).To(HaveLen(1), "one that Gardener has not labelled")
	e.Expect(created(e.name, mutated)).To(HaveLen(1), "a namespace without the provider")
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: shoot, Name: "kube-apiserver"},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 443}},
		},
	}
	e.Expect(source.Client.Create(e.ctx, service)).To(Succeed())
	e.Expect(service.Annotations).To(HaveKeyWithValue(example.ProtocolAnnotation, "tcp"))

	// A provider that fails to do its work refuses the object, with its reason.
	broken := controllerManager(shoot, mutated)
	broken.Spec.Template.Spec.Containers[0].Name = "another"
	e.Expect(source.Client.Create(e.ctx, broken)).To(MatchError(
		ContainSubstring("has no container kube-controller-manager")))

	e.stop(hub)
	hub = e.startHub(serveWebhooks(e))
	e.Eventually(e.configurations(source)).Should(BeZero(), "%s", hub.Log)
	e.Expect(source.Client.Delete(e.ctx, service)).To(Succeed())
	e.Expect(client.IgnoreNotFound(source.Client.Delete(e.ctx, broken))).To(Succeed())
}

// What the hub was not built with cannot be served.
func TestAProviderThatTheHubDoesNotHave(t *testing.T) {
	e := newEnv(t)
	_, err := testbed.StartHub(e.ctx, source, testbed.HubOptions{Config: func(c *configv1alpha1.HubConfiguration) {
		serveWebhooks(e)(c)
		ofProviders("another")(c)
	}})
	e.Expect(err).To(MatchError(ContainSubstring(`the hub was not built with "another"`)))
}

// A TargetCluster that wants such a provider gets an event that names those that there are.
func TestATargetWantsAProviderThatTheHubDoesNotHave(t *testing.T) {
	e := newEnv(t)
	e.Expect(source.Client.Create(e.ctx, testbed.Registration(e.name, "a", e.alias(target)))).To(Succeed())
	hub := e.startHub(serveWebhooks(e))
	e.Eventually(e.exists("a")).Should(BeTrue(), "%s", hub.Log)
	e.setWebhooks("a", `{"registration":{"scope":"Runtime"},`+
		`"controlPlanes":{"enabled":true,"providers":["example","another"]}}`)
	e.Eventually(func() []eventsv1.Event {
		events := &eventsv1.EventList{}
		e.Expect(source.Client.List(e.ctx, events, client.InNamespace(e.name))).To(Succeed())
		return events.Items
	}).Should(ContainElement(And(HaveField("Reason", "WebhooksInvalid"), HaveField("Note", ContainSubstring(
		`spec.webhooks.controlPlanes.providers[1]: Unsupported value: "another"`)))), "%s", hub.Log)
	// What is attached for the other provider has to be gone before the next test.
	e.Eventually(e.webhooksOf("a")).Should(Equal("True WebhooksRegistered"), "%s", hub.Log)
	e.setWebhooks("a", "null")
	e.Eventually(e.configurations(target)).Should(BeZero(), "%s", hub.Log)
	e.Eventually(e.webhooksOf("a")).Should(BeEmpty(), "%s", hub.Log)
}
