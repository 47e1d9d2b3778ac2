package webhookregistration

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/trellis-hub/trellis/webhooks/pods"
)

// HUB-22: webhooks of pods that are combined are one entry, which the hub answers. Where policies take the place of
// some of them, the others stay combined.
func TestCombinedWebhooks(t *testing.T) {
	b := newBench(t, nil)
	b.others = append(replaceable(), pods.SystemComponents())
	b.serve(b.listener)
	b.setYAML(shared.B, `{registration: {combinePods: true}, projectedTokenMount: {enabled: true},
		seccompProfile: {enabled: true, mode: Webhook},
		kubernetesServiceHost: {enabled: true, host: api.b, mode: Webhook},
		systemComponentsConfig: {enabled: true, podNodeSelector: {a: b}}}`)
	b.start(nil)
	b.Eventually(b.condition(shared.B)).Should(Equal(registered))
	combined, host := "combined-projected-token-mount"+domain, "kubernetes-service-host"+domain
	mutating, _ := b.names(shared.B)
	b.Expect(mutating).To(Equal([]string{combined, ownPrefix + combined, host}))
	b.Expect(b.called(shared.B)).To(ContainElements(
		"target.mount-projected-service-account-token.seccomp-profile.system-components-config",
		"kubernetes-service-host"))
	b.becomes(shared.B, "api.b RuntimeDefault", nil)

	t.Log("A policy takes the place of one of them")
	b.setYAML(shared.B, `{registration: {combinePods: true}, projectedTokenMount: {enabled: true},
		seccompProfile: {enabled: true, mode: Policy},
		kubernetesServiceHost: {enabled: true, host: api.new, mode: Webhook},
		systemComponentsConfig: {enabled: true, podNodeSelector: {a: b}}}`)
	b.Eventually(func() []string { return b.policies(shared.B) }).Should(
		ContainElement("MutatingAdmissionPolicy seccomp-profile"))
	b.becomes(shared.B, "api.new RuntimeDefault", nil)
	b.Eventually(func() []string { return b.called(shared.B) }).Should(And(
		ContainElement("target.mount-projected-service-account-token.system-components-config"),
		Not(ContainElement("seccomp-profile"))))
	mutating, _ = b.names(shared.B)
	b.Expect(mutating).To(Equal([]string{combined, ownPrefix + combined, host}))

	t.Log("They are separate again")
	b.setYAML(shared.B, `{projectedTokenMount: {enabled: true}, seccompProfile: {enabled: true, mode: Webhook}}`)
	b.Eventually(func() []string { now, _ := b.names(shared.B); return now }).Should(Equal([]string{
		"projected-token-mount" + domain, ownPrefix + "projected-token-mount" + domain,
		"seccomp-profile" + domain, ownPrefix + "seccomp-profile" + domain,
	}))
	b.becomes(shared.B, " RuntimeDefault", nil)
	b.switchOff(shared.B)
	b.Eventually(b.condition(shared.B)).Should(BeEmpty())
}
