package app_test

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-hub/trellis/controllers/criticalcomponents"
	"github.com/trellis-hub/trellis/controllers/nodeagentdelay"
)

// A node of the target loses its taint, and gets a delay, as soon as the target's settings say so.
func TestNodesAreLookedAfter(t *testing.T) {
	e := newEnv(t)
	hub := e.startHub()
	e.eventuallyReady()
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: e.name},
		Spec: corev1.NodeSpec{Taints: []corev1.Taint{{
			Key: "node.gardener.cloud/critical-components-not-ready", Effect: corev1.TaintEffectNoSchedule,
		}}},
	}
	e.Expect(target.Client.Create(e.ctx, node)).To(Succeed())
	t.Cleanup(func() { e.Expect(target.Client.Delete(e.ctx, node)).To(Succeed()) })
	delay := func() string {
		e.Expect(target.Client.Get(e.ctx, client.ObjectKeyFromObject(node), node)).To(Succeed())
		return node.Annotations["node-agent.gardener.cloud/reconciliation-delay"]
	}

	e.Expect(e.setControllers(`{"nodeAgentReconciliationDelay":{"enabled":true,"minDelay":"7s"}}`)).To(Succeed())
	e.Eventually(delay).ShouldNot(BeEmpty())
	e.Expect(node.Spec.Taints).To(HaveLen(1), "the other one is off by default")
	first := delay()
	e.Expect(e.setControllers(`{"nodeAgentReconciliationDelay":{"minDelay":"8s"}}`)).To(Succeed())
	e.Eventually(delay).ShouldNot(Equal(first))

	e.Expect(e.setControllers(`{"nodeCriticalComponents":{"enabled":true,"backoff":"1s"}}`)).To(Succeed())
	e.Eventually(func() []corev1.Taint {
		e.Expect(target.Client.Get(e.ctx, client.ObjectKeyFromObject(node), node)).To(Succeed())
		return node.Spec.Taints
	}).Should(BeEmpty())

	t.Log("settings that cannot be")
	e.Expect(e.setControllers(`{"nodeAgentReconciliationDelay":{"maxDelay":"31m"},"nodeCriticalComponents":{"backoff":"2h"}}`)).
		To(Succeed())
	e.Eventually(e.working(hub, nodeagentdelay.Name)).Should(BeZero())
	e.Eventually(e.working(hub, criticalcomponents.Name)).Should(BeZero())
	e.Eventually(e.reasons).Should(ContainElement(And(HavePrefix("ControllersInvalid"),
		ContainSubstring(`spec.controllers.nodeAgentReconciliationDelay.maxDelay: Invalid value: "31m0s"`))))
}
