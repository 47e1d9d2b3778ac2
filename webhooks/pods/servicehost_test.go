package pods_test

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/trellis-hub/trellis/hack/testbed/reviews"
	"github.com/trellis-hub/trellis/webhooks/pods"
)

func TestKSH_ServiceHost(t *testing.T) {
	target := func(settings, namespace string, labels map[string]string) reviews.Target {
		return reviews.Target{
			Settings:  reviews.Webhooks(t, "kubernetesServiceHost: {enabled: true, "+settings+"}"),
			Namespace: namespace, Labels: labels,
		}
	}
	const (
		host = `{name: KUBERNETES_SERVICE_HOST, value: api.a.example}`
		own  = `containers: [{name: a, env: [{name: KUBERNETES_SERVICE_HOST, value: mine}]},
			{name: b, env: [{name: KUBERNETES_SERVICE_HOST, valueFrom: {fieldRef: {fieldPath: status.hostIP}}}]}]`
		plain    = `containers: [{name: a}]`
		injected = `containers: [{name: a, env: [` + host + `]}]`
	)
	a := target("host: api.a.example", "of-a-user", nil)
	t.Run("KSH-1 all that run", func(t *testing.T) {
		changed(t, a, pods.ServiceHost(), pod(``,
			`initContainers: [{name: i}], containers: [{name: a}, {name: b, env: [{name: X}]}],
			ephemeralContainers: [{name: e}]`), pod(``, `initContainers: [{name: i, env: [`+host+`]}], containers: [
			{name: a, env: [`+host+`]}, {name: b, env: [{name: X}, `+host+`]}], ephemeralContainers: [{name: e}]`))
	})
	t.Run("KSH-2 those that have one keep it", func(t *testing.T) { unchanged(t, a, pods.ServiceHost(), pod(``, own)) })
	t.Run("KSH-2 each container for itself", func(t *testing.T) {
		changed(t, a, pods.ServiceHost(), pod(``, `initContainers: [{name: i}], `+own),
			pod(``, `initContainers: [{name: i, env: [`+host+`]}], `+own))
	})
	const disabled = `labels: {apiserver-proxy.networking.gardener.cloud/inject: disable}`
	t.Run("KSH-3 the pod opts out", func(t *testing.T) {
		unchanged(t, a, pods.ServiceHost(), pod(disabled, plain))
	})
	t.Run("KSH-4 the namespace opts out", func(t *testing.T) {
		out := target("host: api.a.example", "x", map[string]string{pods.InjectLabel: pods.InjectDisabled})
		unchanged(t, out, pods.ServiceHost(), pod(``, plain))
	})
	t.Run("KSH-5 no other value opts out", func(t *testing.T) {
		const labels = `labels: {apiserver-proxy.networking.gardener.cloud/inject: "false"}`
		changed(t, a, pods.ServiceHost(), pod(labels, plain), pod(labels, injected))
	})
	t.Run("KSH-7 in all namespaces", func(t *testing.T) {
		for _, namespace := range []string{"kube-system", "default", "x"} {
			changed(t, target("host: api.a.example", namespace, nil), pods.ServiceHost(), pod(``, plain), pod(``, injected))
		}
	})
	t.Run("KSH-8 each target has its own", func(t *testing.T) {
		b := target("host: api.b.example", "x", nil)
		for range 3 {
			g := NewWithT(t)
			ofA, ofB := a.Send(t, pods.ServiceHost(), pod(``, plain)), b.Send(t, pods.ServiceHost(), pod(``, plain))
			g.Expect(string(ofA.Patch)).To(And(ContainSubstring("api.a.example"), Not(ContainSubstring("api.b.example"))))
			g.Expect(string(ofB.Patch)).To(And(ContainSubstring("api.b.example"), Not(ContainSubstring("api.a.example"))))
		}
	})
	t.Run("KSH-9 another port", func(t *testing.T) {
		changed(t, target("host: api.a.example, port: 6443", "x", nil), pods.ServiceHost(),
			pod(``, `containers: [{name: a}, {name: b, env: [{name: KUBERNETES_SERVICE_PORT, value: "1"}]}]`),
			pod(``, `containers: [{name: a, env: [`+host+`, {name: KUBERNETES_SERVICE_PORT, value: "6443"}]},
				{name: b, env: [{name: KUBERNETES_SERVICE_PORT, value: "1"}, `+host+`]}]`))
	})
}
