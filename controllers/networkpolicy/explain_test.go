package networkpolicy

import (
	"context"
	"errors"
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-hub/trellis/clustercache"
)

// failing is how many Services with faults are counted in a target; -1 if it has no series.
func (b *bench) failing(s *site) func() float64 {
	return func() float64 { return failingIn(b.WithT, b.registry, s.key.String()) }
}

func failingIn(g Gomega, registry *prometheus.Registry, target string) float64 {
	families, err := registry.Gather()
	g.Expect(err).NotTo(HaveOccurred())
	for _, family := range families {
		for _, series := range family.GetMetric() {
			if family.GetName() == "trellis_target_network_policies_failing" && series.GetLabel()[0].GetValue() == target {
				return series.GetGauge().GetValue()
			}
		}
	}
	return -1
}

func TestCountsOfServicesWithFaultsAreBounded(t *testing.T) {
	g := NewWithT(t)
	registry := prometheus.NewRegistry()
	m, err := NewMetrics(registry)
	g.Expect(err).NotTo(HaveOccurred())
	key := clustercache.ClusterKey{Namespace: "shoot--a", Name: "a"}
	count := func() float64 { return failingIn(g, registry, "shoot--a/a") }
	name := func(i int) types.NamespacedName { return types.NamespacedName{Namespace: "x", Name: fmt.Sprint(i)} }
	fault := errors.New("fault")
	m.ran(key, name(0), fault)
	g.Expect(count()).To(Equal(-1.0), "the target is not engaged")
	m.engage(key)
	g.Expect(count()).To(BeZero())
	for i := range maxFailing + 10 {
		m.ran(key, name(i), fault)
		m.ran(key, name(i), fault)
	}
	g.Expect(count()).To(BeEquivalentTo(maxFailing))
	m.ran(key, name(0), nil)
	m.ran(key, name(1), clustercache.ErrClusterNotConnected)
	g.Expect(count()).To(BeEquivalentTo(maxFailing - 1))
	m.forget(key)
	g.Expect(count()).To(Equal(-1.0))
}

func TestServicesWithFaultsAreCountedAndExplained(t *testing.T) {
	b := start(t, nil, alpha)
	ns := b.namespace(alpha, "explained").Name
	settings := Settings{NamespaceSelectors: []metav1.LabelSelector{{MatchLabels: map[string]string{testLabel: b.label}}}}
	explain := func(of *corev1.Service) *State {
		status := clustercache.Status{Cluster: alpha.key}
		state, err := Explain(context.Background(), alpha.client, status, settings, client.ObjectKeyFromObject(of))
		b.Expect(err).NotTo(HaveOccurred())
		return state
	}
	good := b.service(alpha, ns, "good", nil)
	b.Eventually(b.policies(alpha, ns)).Should(Equal(pairs(ns, "good-tcp-5678")))
	state := explain(good)
	b.Expect(state.Settled()).To(BeTrue())
	b.Expect(state.Wanted).To(ConsistOf(types.NamespacedName{Namespace: ns, Name: "egress-to-good-tcp-5678"},
		types.NamespacedName{Namespace: ns, Name: "ingress-to-good-tcp-5678"}))
	b.Eventually(b.failing(alpha)).Should(BeZero())

	t.Log("an annotation that cannot be used")
	bad := b.service(alpha, ns, "bad", annotated(AnnotationNamespaceSelectors, "nonsense"))
	b.Eventually(b.failing(alpha)).Should(BeEquivalentTo(1))
	b.Expect(explain(bad).Reason).To(Equal(reasonInvalid))
	change(b, alpha, bad, func(s *corev1.Service) { delete(s.Annotations, AnnotationNamespaceSelectors) })
	b.Eventually(b.failing(alpha)).Should(BeZero())

	t.Log("a policy that does not belong to the Service has the name")
	b.create(alpha, foreignPolicy(ns, "ingress-to-contested-tcp-5678", types.NamespacedName{}))
	contested := b.service(alpha, ns, "contested", nil)
	b.Eventually(b.failing(alpha)).Should(BeEquivalentTo(1))
	state = explain(contested)
	b.Expect(state.Reason).To(Equal(reasonConflict))
	b.Expect(state.Missing).To(ContainElement(HaveField("Name", "ingress-to-contested-tcp-5678")))
	b.delete(alpha, contested)
	b.Eventually(b.failing(alpha)).Should(BeZero())

	t.Log("without the controller, nothing is kept in line")
	b.stop()
	b.Expect(b.failing(alpha)()).To(Equal(-1.0), "nothing is left of a term")
	key := client.ObjectKey{Namespace: ns, Name: "egress-to-good-tcp-5678"}
	b.delete(alpha, &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: key.Name}})
	b.create(alpha, foreignPolicy(ns, "surplus", client.ObjectKeyFromObject(good)))
	changed := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "ingress-to-good-tcp-5678"}}
	change(b, alpha, changed, func(p *networkingv1.NetworkPolicy) {
		p.Spec.PodSelector.MatchLabels = map[string]string{"another": "one"}
	})
	state = explain(good)
	b.Expect(state.Settled()).To(BeFalse())
	b.Expect(state.Missing).To(ConsistOf(key))
	b.Expect(state.Different).To(ConsistOf(HaveField("Name", "ingress-to-good-tcp-5678")))
	b.Expect(state.Surplus).To(ConsistOf(HaveField("Name", "surplus")))
	headless := b.service(alpha, ns, "headless", func(s *corev1.Service) { s.Spec.Selector = nil })
	b.Expect(explain(headless).Idle).To(ContainSubstring("no selector"))
	settings.NamespaceSelectors[0].MatchLabels = map[string]string{testLabel: "other"}
	b.Expect(explain(good).Idle).To(ContainSubstring("namespaceSelectors"))
	before := len(b.writes(alpha, ns))
	explain(good)
	b.Expect(b.writes(alpha, ns)).To(HaveLen(before), "to explain writes nothing")
	none := types.NamespacedName{Namespace: ns, Name: "none"}
	_, err := Explain(context.Background(), alpha.client, clustercache.Status{}, settings, none)
	b.Expect(err).To(MatchError(ContainSubstring("not found")))
}
