package app_test

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-hub/trellis/controllers/networkpolicy"
)

// A Service of the target gets its policies as soon as the target's settings say so.
func TestNetworkPoliciesAreWritten(t *testing.T) {
	e := newEnv(t)
	hub := e.startHub()
	e.eventuallyReady()
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: e.name, Name: "svc"},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": "x"},
			Ports:    []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(8080)}},
		},
	}
	e.Expect(target.Client.Create(e.ctx, service)).To(Succeed())
	policies := func() (names []string) {
		list := &networkingv1.NetworkPolicyList{}
		e.Expect(target.Client.List(e.ctx, list, client.InNamespace(e.name))).To(Succeed())
		for _, policy := range list.Items {
			names = append(names, policy.Name)
		}
		return names
	}
	e.Expect(policies()).To(BeEmpty(), "they are off by default")
	e.Expect(e.setControllers(fmt.Sprintf(`{"networkPolicy":{"enabled":true,"namespaceSelectors":[`+
		`{"matchLabels":{"kubernetes.io/metadata.name":%q}}]}}`, e.name))).To(Succeed())
	e.Eventually(e.working(hub, networkpolicy.Name)).Should(BeEquivalentTo(1))
	e.Eventually(policies).Should(ConsistOf("ingress-to-svc-tcp-8080", "egress-to-svc-tcp-8080"))

	t.Log("other settings")
	e.Expect(e.setControllers(`{"networkPolicy":{"onlyWithClientPods":true}}`)).To(Succeed())
	e.Eventually(policies).Should(BeEmpty())
	e.Expect(e.setControllers(`{"networkPolicy":{"onlyWithClientPods":false}}`)).To(Succeed())
	e.Eventually(policies).Should(HaveLen(2))
	e.Expect(e.setControllers(`{"networkPolicy":{"namespaceSelectors":[{"matchLabels":{"no":"namespace"}}]}}`)).To(
		Succeed())
	e.Eventually(policies).Should(BeEmpty())

	t.Log("settings that cannot be")
	e.Expect(e.setControllers(`{"networkPolicy":{"namespaceSelectors":[{"matchLabels":{"":"x"}}]}}`)).To(Succeed())
	e.Eventually(e.working(hub, networkpolicy.Name)).Should(BeZero())
	e.Eventually(e.reasons).Should(ContainElement(And(HavePrefix("ControllersInvalid"),
		ContainSubstring("spec.controllers.networkPolicy.namespaceSelectors[0]"))))
}
