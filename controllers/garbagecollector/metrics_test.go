package garbagecollector

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-hub/trellis/apis/references"
	"github.com/trellis-hub/trellis/clustercache"
)

// figures returns the value of a metric by the label "target".
func figures(t *testing.T, registry *prometheus.Registry, name string) func() map[string]float64 {
	t.Helper()
	g := NewWithT(t)
	return func() map[string]float64 {
		found := map[string]float64{}
		families, err := registry.Gather()
		g.Expect(err).NotTo(HaveOccurred())
		for _, family := range families {
			for _, series := range family.GetMetric() {
				if family.GetName() == name {
					value := series.GetGauge().GetValue() + series.GetCounter().GetValue()
					found[series.GetLabel()[0].GetValue()] = value
				}
			}
		}
		return found
	}
}

const (
	missed    = "trellis_target_garbage_collection_missed_periods"
	collected = "trellis_target_garbage_collected_total"
)

func TestPeriodsAreMissedUntilAPassGoesWell(t *testing.T) {
	g := NewWithT(t)
	registry := prometheus.NewRegistry()
	m, err := NewMetrics(registry)
	g.Expect(err).NotTo(HaveOccurred())
	now := clocktesting.NewFakePassiveClock(time.Now())
	pass := func(d time.Duration) { now.SetTime(now.Now().Add(d)) }
	key := clustercache.ClusterKey{Namespace: "shoot--a", Name: "a"}
	get := figures(t, registry, missed)
	g.Expect(get()).To(BeEmpty())
	m.engage(key, time.Hour, now)
	pass(59 * time.Minute)
	g.Expect(get()).To(Equal(map[string]float64{"shoot--a/a": 0}))
	pass(2*time.Hour + 30*time.Minute)
	g.Expect(get()).To(Equal(map[string]float64{"shoot--a/a": 3}))
	m.passed(key)
	pass(time.Minute)
	g.Expect(get()).To(Equal(map[string]float64{"shoot--a/a": 0}))
	pass(-3 * time.Hour)
	g.Expect(get()).To(Equal(map[string]float64{"shoot--a/a": 0}), "the clock went back")
	m.engage(key, 0, now)
	g.Expect(get()).To(Equal(map[string]float64{"shoot--a/a": 0}), "without a period, none is missed")
	m.forget(key)
	g.Expect(get()).To(BeEmpty())
}

func TestPassesThatFailAreCounted(t *testing.T) {
	g := NewWithT(t)
	registry := prometheus.NewRegistry()
	m, err := NewMetrics(registry)
	g.Expect(err).NotTo(HaveOccurred())
	t.Run("at work", func(t *testing.T) {
		blind := register(t, shared.a, "unseeing", restricted(t, shared.a, collectRule, listRule))
		clean := register(t, shared.b, "clean", nil)
		garbage := clean.secret(clean.namespace, "garbage")
		collect(t, Options{Metrics: m}, blind, clean)
		clean.gone(garbage)
		clean.Eventually(figures(t, registry, collected)).Should(
			HaveKeyWithValue(clean.key.String(), BeNumerically(">=", 1)))
		clean.Eventually(figures(t, registry, missed)).Should(HaveKeyWithValue(blind.key.String(), BeNumerically(">", 3)))
		clean.Eventually(figures(t, registry, missed)).Should(HaveKeyWithValue(clean.key.String(), BeNumerically("<", 3)))
		clean.Expect(figures(t, registry, collected)()).To(HaveKeyWithValue(blind.key.String(), 0.0))
	})
	g.Expect(figures(t, registry, missed)()).To(BeEmpty(), "nothing is left of a term")
	g.Expect(figures(t, registry, collected)()).To(BeEmpty())
}

func TestExplainSaysWhatAPassWouldDo(t *testing.T) {
	s := register(t, shared.a, "explained", nil)
	used, unused := s.configMap(s.namespace, "used"), s.secret(s.namespace, "unused")
	plain := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "plain"}}
	s.create(plain)
	annotations := map[string]string{references.AnnotationKey(references.KindConfigMap, "used"): "used"}
	for i := range maxUsers + 2 {
		s.create(&appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: string(rune('a' + i)), Annotations: annotations},
			Spec: appsv1.DeploymentSpec{
				Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "x"}},
				Template: corev1.PodTemplateSpec{
					ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "x"}},
					Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "x", Image: "x"}}},
				},
			},
		})
	}
	now := clocktesting.NewFakePassiveClock(time.Now())
	explain := func(kind string, obj client.Object) *State {
		state, err := Explain(t.Context(), s.cluster.Client, kind, client.ObjectKeyFromObject(obj), time.Hour, now)
		s.Expect(err).NotTo(HaveOccurred())
		return state
	}
	s.Expect(explain(references.KindConfigMap, plain).Labelled).To(BeFalse())
	state := explain(references.KindSecret, unused)
	s.Expect(state.Labelled).To(BeTrue())
	s.Expect(state.Garbage).To(BeFalse(), "it is too young")
	s.Expect(state.From).To(Equal(unused.CreationTimestamp.Add(time.Hour)))

	now.SetTime(now.Now().Add(2 * time.Hour))
	s.Expect(explain(references.KindSecret, unused).Garbage).To(BeTrue())
	state = explain(references.KindConfigMap, used)
	s.Expect(state.Garbage).To(BeFalse())
	s.Expect(state.Users).To(HaveLen(maxUsers))
	s.Expect(state.More).To(Equal(2))
	s.Expect(state.Users[0].Kind.String()).To(Equal("Deployment.apps"))

	_, err := Explain(t.Context(), s.cluster.Client, "pod", client.ObjectKeyFromObject(plain), time.Hour, now)
	s.Expect(err).To(MatchError(ContainSubstring("not collected")))
}
