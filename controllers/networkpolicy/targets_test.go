package networkpolicy

import (
	"context"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func inNamespace(namespace string) client.ListOption { return client.InNamespace(namespace) }

// aware has policies only where there are clients.
func aware(s *Settings) { s.OnlyWithClientPods = true }

func TestNP42_NP43_NP44_NP45_OnlyWithClientPods(t *testing.T) {
	b := start(t, aware, alpha)
	b.namespace(alpha, "np42")
	b.foreign(alpha, "np42-b", "clients", "np42")
	b.pod(alpha, "np42", "denied", map[string]string{clientLabelPrefix + first: "denied"})
	b.service(alpha, "np42", "svc", annotated(AnnotationNamespaceSelectors, selecting("clients", "np42"),
		AnnotationFromWorld, "[]"))
	all := []string{"np42", "np42-b"}
	const world = "np42/ingress-to-svc-from-world"
	b.Eventually(b.policies(alpha, all...)).Should(Equal([]string{world}), "NP-42, NP-45")
	b.pod(alpha, "np42", "own", map[string]string{clientLabelPrefix + first: allowed})
	own := with(pairs("np42", first), world)
	b.Eventually(b.policies(alpha, all...)).Should(Equal(own), "NP-42")
	labels := map[string]string{clientLabelPrefix + "np42-" + first: allowed}
	other := b.pod(alpha, "np42-b", "other", labels)
	another := b.pod(alpha, "np42-b", "another", labels)
	both := with(own, "np42/ingress-to-"+first+"-from-np42-b", "np42-b/egress-to-np42-"+first)
	b.Eventually(b.policies(alpha, all...)).Should(Equal(both), "NP-43")
	change(b, alpha, another, func(p *corev1.Pod) { p.Labels[clientLabelPrefix+"np42-"+first] = "no" })
	b.Expect(alpha.client.Delete(context.Background(), other, client.GracePeriodSeconds(0))).To(Succeed())
	b.Eventually(b.policies(alpha, all...)).Should(Equal(own), "NP-44")
}

func TestNP57_NP59_TargetsAreApart(t *testing.T) {
	b := start(t, nil, alpha, beta)
	for _, s := range []*site{alpha, beta} {
		b.namespace(s, "np57")
	}
	b.foreign(beta, "np57-b", "clients", "np57")
	// The same name in both, and a client namespace in one only.
	clients := annotated(AnnotationNamespaceSelectors, selecting("clients", "np57"))
	inAlpha, inBeta := b.service(alpha, "np57", "svc", clients), b.service(beta, "np57", "svc", clients)
	b.Eventually(b.policies(beta, "np57", "np57-b")).Should(HaveLen(4))
	b.Eventually(b.policies(alpha, "np57", "np57-b")).Should(Equal(pairs("np57", first)), "NP-57")
	change(b, beta, inBeta, func(s *corev1.Service) { s.Annotations[AnnotationNamespaceSelectors] = "x" })
	b.Eventually(b.warnings(beta, inBeta)).Should(HaveLen(1), "NP-59")
	b.Expect(b.warnings(alpha, inAlpha)()).To(BeEmpty(), "NP-59")
	b.Expect(b.warnings(alpha, inBeta)()).To(BeEmpty(), "NP-59")
	b.Expect(b.events.Events).NotTo(Receive(), "there are no events in the source")
	b.delete(beta, inBeta)
	b.Eventually(b.policies(beta, "np57", "np57-b")).Should(BeEmpty())
	b.Expect(b.policies(alpha, "np57")()).To(Equal(pairs("np57", first)))
}

func TestNP58_PodsOfAnotherTargetAreNoClients(t *testing.T) {
	b := start(t, aware, alpha, beta)
	for _, s := range []*site{alpha, beta} {
		b.namespace(s, "np58")
		b.service(s, "np58", "svc", annotated(AnnotationFromWorld, "[]"))
	}
	b.pod(beta, "np58", "client", map[string]string{clientLabelPrefix + first: allowed})
	const world = "np58/ingress-to-svc-from-world"
	b.Eventually(b.policies(beta, "np58")).Should(Equal(with(pairs("np58", first), world)))
	b.Eventually(b.policies(alpha, "np58")).Should(Equal([]string{world}))
}

func TestSettingsThatCannotBeHaveNothingDone(t *testing.T) {
	b := start(t, func(s *Settings) { s.NamespaceSelectors[0].MatchLabels["not a label"] = "x" }, alpha)
	b.namespace(alpha, "settings")
	b.service(alpha, "settings", "svc", nil)
	b.Eventually(b.runs("error")).Should(BeNumerically(">", 0))
	b.Expect(b.policies(alpha, "settings")()).To(BeEmpty())
}

func TestRequiredOptions(t *testing.T) {
	_, err := New(Options{})
	NewWithT(t).Expect(err).To(MatchError("controller networkpolicy: a required option is missing"))
}
