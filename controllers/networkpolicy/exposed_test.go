package networkpolicy

import (
	"context"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

// ingress creates one that leads to a port of a Service.
func (b *bench) ingress(
	s *site, namespace, service string, port networkingv1.ServiceBackendPort,
) *networkingv1.Ingress {
	b.t.Helper()
	ingress := &networkingv1.Ingress{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "ingress-"},
		Spec: networkingv1.IngressSpec{Rules: []networkingv1.IngressRule{{
			IngressRuleValue: networkingv1.IngressRuleValue{HTTP: &networkingv1.HTTPIngressRuleValue{
				Paths: []networkingv1.HTTPIngressPath{{
					Path: "/", PathType: ptr.To(networkingv1.PathTypePrefix),
					Backend: networkingv1.IngressBackend{
						Service: &networkingv1.IngressServiceBackend{Name: service, Port: port},
					},
				}},
			}},
		}}},
	}
	b.create(s, ingress)
	return ingress
}

// withController has an ingress controller in a namespace.
func withController(namespace string) func(*Settings) {
	return func(s *Settings) {
		s.IngressController = &IngressController{
			Namespace: namespace, PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{"app": "ingress-controller"}},
		}
	}
}

func TestNP30_NP31_NP32_NP35_Ingresses(t *testing.T) {
	b := start(t, withController("np30-k"), alpha)
	b.namespace(alpha, "np30")
	b.foreign(alpha, "np30-k")
	service := b.service(alpha, "np30", "svc", nil)
	byNumber := networkingv1.ServiceBackendPort{Number: 1234}
	b.ingress(alpha, "np30", "svc", networkingv1.ServiceBackendPort{Number: 5678})
	b.ingress(alpha, "np30", "svc", networkingv1.ServiceBackendPort{Name: "unknown"})
	ingress := b.ingress(alpha, "np30", "svc", byNumber)
	all := []string{"np30", "np30-k"}
	exposed := func(id string) []string {
		return with(pairs("np30", id), "np30/ingress-to-"+id+"-from-ingress-controller",
			"np30-k/egress-to-np30-"+id+"-from-ingress-controller")
	}
	b.Eventually(b.policies(alpha, all...)).Should(Equal(exposed(first)))
	b.Expect(b.specs(alpha, all...)()).To(And(
		HaveKeyWithValue("np30/ingress-to-svc-tcp-5678-from-ingress-controller",
			in("TCP/5678", peer(ingressPodJSON, "np30-k"))),
		HaveKeyWithValue("np30-k/egress-to-np30-svc-tcp-5678-from-ingress-controller",
			out(ingressPodJSON, "TCP/5678", peer(podsJSON, "np30")))), "NP-30")
	change(b, alpha, service, func(s *corev1.Service) { s.Spec.Ports[0].TargetPort = intstr.FromString("http") })
	b.Eventually(b.policies(alpha, all...)).Should(Equal(exposed("svc-tcp-http")), "NP-31")

	b.delete(alpha, ingress)
	b.Eventually(b.policies(alpha, all...)).Should(Equal(pairs("np30", "svc-tcp-http")), "NP-32")
	b.ingress(alpha, "np30", "svc", networkingv1.ServiceBackendPort{Name: "first"})
	b.Eventually(b.policies(alpha, all...)).Should(Equal(exposed("svc-tcp-http")), "NP-35")
	change(b, alpha, service, func(s *corev1.Service) { s.Spec.Selector = nil })
	b.Eventually(b.policies(alpha, all...)).Should(BeEmpty(), "NP-32")
	change(b, alpha, service, func(s *corev1.Service) { s.Spec.Selector = map[string]string{"foo": "bar"} })
	b.Eventually(b.policies(alpha, all...)).Should(Equal(exposed("svc-tcp-http")))
	b.delete(alpha, service)
	b.Eventually(b.policies(alpha, all...)).Should(BeEmpty(), "NP-32")
}

func TestNP33_NP34_WhereTheIngressControllerIs(t *testing.T) {
	b := start(t, nil, alpha)
	b.namespace(alpha, "np33")
	b.service(alpha, "np33", "svc", nil)
	b.ingress(alpha, "np33", "svc", networkingv1.ServiceBackendPort{Number: 1234})
	b.Eventually(b.policies(alpha, "np33")).Should(Equal(pairs("np33", first)), "NP-33")
	b.stop()
	b.restart(withController("np33"), alpha)
	b.Eventually(b.specs(alpha, "np33")).Should(And(HaveLen(4),
		HaveKeyWithValue("np33/ingress-to-svc-tcp-5678-from-ingress-controller",
			in("TCP/5678", peer(ingressPodJSON, ""))),
		HaveKeyWithValue("np33/egress-to-svc-tcp-5678-from-ingress-controller",
			out(ingressPodJSON, "TCP/5678", peer(podsJSON, "")))), "NP-34")
	b.stop()
	b.restart(nil, alpha)
	b.Eventually(b.policies(alpha, "np33")).Should(Equal(pairs("np33", first)), "NP-33")
}

// routed is the spec of a VirtualService.
func routed(gateways, protocol, host string) string {
	return `{hosts: [x], gateways: [` + gateways + `], ` + protocol +
		`: [{match: [{uri: {prefix: /}}], route: [{destination: {host: ` + host + `, port: {number: 1234}}}]}]}`
}

func TestNP36_NP37_NP38_NP39_NP40_NP41_Istio(t *testing.T) {
	b := start(t, nil, alpha)
	b.namespace(alpha, "np36")
	b.foreign(alpha, "np36-i")
	service := b.service(alpha, "np36", "svc", nil)
	all := []string{"np36", "np36-i"}
	b.Eventually(b.policies(alpha, all...)).Should(Equal(pairs("np36", first)), "NP-41: the target has no Istio")
	b.installIstio(alpha)
	b.pod(alpha, "np36-i", "gateway", map[string]string{"istio": "ingressgateway"})
	b.istioObject(alpha, "Gateway", "np36-i", "gw", `{selector: {istio: ingressgateway}}`)
	const host = "svc.np36.svc.cluster.local"
	b.istioObject(alpha, "VirtualService", "np36", "external", routed("np36-i/gw", "http", "svc"))
	exposed := func(id string) []string {
		return with(pairs("np36", id), "np36/ingress-to-"+id+"-from-np36-i", "np36-i/egress-to-np36-"+id+"-from-istio")
	}
	for _, protocol := range []string{"http", "tls", "tcp"} {
		vs := b.istioObject(alpha, "VirtualService", "np36", protocol, routed("mesh, np36-i/gw", protocol, host))
		b.Eventually(b.specs(alpha, all...)).Should(And(HaveLen(4),
			HaveKeyWithValue("np36/ingress-to-svc-tcp-5678-from-np36-i", in("TCP/5678", peer(gatewayPodJSON, "np36-i"))),
			HaveKeyWithValue("np36-i/egress-to-np36-svc-tcp-5678-from-istio",
				out(gatewayPodJSON, "TCP/5678", peer(podsJSON, "np36")))), "NP-36, NP-39: "+protocol)
		b.delete(alpha, vs)
		b.Eventually(b.policies(alpha, all...)).Should(Equal(pairs("np36", first)), "NP-38: "+protocol)
	}
	b.istioObject(alpha, "VirtualService", "np36", "vs", routed("np36-i/gw", "http", host))
	b.Eventually(b.policies(alpha, all...)).Should(Equal(exposed(first)))
	change(b, alpha, service, func(s *corev1.Service) { s.Spec.Ports[0].TargetPort = intstr.FromInt32(8443) })
	b.Eventually(b.policies(alpha, all...)).Should(Equal(exposed("svc-tcp-8443")), "NP-37")
	change(b, alpha, service, func(s *corev1.Service) { s.Spec.Selector = nil })
	b.Eventually(b.policies(alpha, all...)).Should(BeEmpty(), "NP-38")
	change(b, alpha, service, func(s *corev1.Service) { s.Spec.Selector = map[string]string{"foo": "bar"} })
	b.Eventually(b.policies(alpha, all...)).Should(Equal(exposed("svc-tcp-8443")))
	b.delete(alpha, service)
	b.Eventually(b.policies(alpha, all...)).Should(BeEmpty(), "NP-38")
}

func TestNP39_GatewaysThatAreMissingOrSelectAll(t *testing.T) {
	b := start(t, nil, alpha)
	b.installIstio(alpha)
	b.namespace(alpha, "np39")
	b.pod(alpha, "np39", "gateway", map[string]string{"istio": "np39"})
	service := b.service(alpha, "np39", "svc", nil)
	b.istioObject(alpha, "VirtualService", "np39", "vs", routed("gw", "http", "svc.np39.svc.cluster.local"))
	b.Eventually(b.warnings(alpha, service)).Should(ConsistOf(
		And(HavePrefix("GatewayNotFound: "), HaveSuffix(": np39/gw"))))
	b.Eventually(b.policies(alpha, "np39")).Should(Equal(pairs("np39", first)), "the rest goes on")
	gateway := b.istioObject(alpha, "Gateway", "np39", "gw", `{selector: {istio: np39}}`)
	exposed := with(pairs("np39", first),
		"np39/ingress-to-svc-tcp-5678-from-istio", "np39/egress-to-svc-tcp-5678-from-istio")
	b.Eventually(b.policies(alpha, "np39")).Should(Equal(exposed), "a gateway of the same namespace, which came late")
	change(b, alpha, gateway, func(gw *unstructured.Unstructured) { gw.Object["spec"] = map[string]any{} })
	b.Eventually(b.warnings(alpha, service)).Should(ContainElement(
		HavePrefix(`InvalidNetworkPolicySettings: Gateway: "np39/gw" has no selector`)))
	b.Expect(b.policies(alpha, "np39")()).To(Equal(exposed), "they stay")
	b.delete(alpha, gateway)
	b.Eventually(b.policies(alpha, "np39")).Should(Equal(pairs("np39", first)))
}

func TestNP55_AGatewayBesideClients(t *testing.T) {
	b := start(t, nil, alpha)
	b.installIstio(alpha)
	b.namespace(alpha, "np55-m")
	b.foreign(alpha, "np55-i", "clients", "np55-m")
	b.pod(alpha, "np55-i", "gateway", map[string]string{"istio": "np55"})
	b.istioObject(alpha, "Gateway", "np55-i", "gw", `{selector: {istio: np55}}`)
	b.istioObject(alpha, "VirtualService", "np55-m", "vs", routed("np55-i/gw", "http", "svc.np55-m.svc.cluster.local"))
	b.service(alpha, "np55-m", "svc", annotated(AnnotationNamespaceSelectors, selecting("clients", "np55-m")))
	b.Eventually(b.specs(alpha, "np55-m", "np55-i")).Should(And(HaveLen(5),
		HaveKeyWithValue("np55-m/ingress-to-svc-tcp-5678-from-np55-i", in("TCP/5678",
			peer(to("np55-m-svc-tcp-5678"), "np55-i"), peer(`{"matchLabels":{"istio":"np55"}}`, "np55-i")))))
	versions := func() map[string]string {
		found := map[string]string{}
		for _, namespace := range []string{"np55-m", "np55-i"} {
			list := &networkingv1.NetworkPolicyList{}
			b.Expect(alpha.client.List(context.Background(), list, inNamespace(namespace))).To(Succeed())
			for _, policy := range list.Items {
				found[policy.Name] = policy.ResourceVersion
			}
		}
		return found
	}
	before := versions()
	b.service(alpha, "np55-m", "last", nil)
	b.Eventually(b.policies(alpha, "np55-m")).Should(ContainElements(pairs("np55-m", "last-tcp-5678")))
	after := versions()
	for policy, version := range before {
		b.Expect(after).To(HaveKeyWithValue(policy, version))
	}
}
