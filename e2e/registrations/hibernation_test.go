package registrations

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
)

// TestTargetThatSleeps has things happen while it does, in the target and at the source.
func TestTargetThatSleeps(t *testing.T) {
	p := newPlace(t, 1)
	target := p.targets[0]
	p.register("target", target)
	p.manage("mr", "1", 2)
	p.eventuallyReady("mr")
	p.eventually("target", hubv1alpha1.ConditionReady, "True/Ready")
	p.eventually("target", hubv1alpha1.ConditionSystemComponentsHealthy, "True/ManagedResourcesHealthy")
	p.Eventually(func() string { return p.target("target").Labels[hubv1alpha1.StatusLabel] }).Should(Equal(hubv1alpha1.StatusHealthy))

	p.annotate(targetCluster(p, "target"), hubv1alpha1.HibernatedAnnotation, "true")
	p.Eventually(target.Connections).Should(BeZero(), "it gets no more requests")
	conditions := func() []metav1.Condition { return p.target("target").Status.Conditions }
	before := conditions()
	p.Expect(target.Hibernate()).To(Succeed())
	p.edit(target, "mr-0", "edited while it slept")
	p.Expect(source.Client.Update(p.ctx, p.content("mr", "2", 3))).To(Succeed())
	p.Consistently(conditions, 15*time.Second, time.Second).Should(Equal(before), "longer than it takes to find a dead target")
	p.Expect(p.target("target").Labels).To(HaveKeyWithValue(hubv1alpha1.StatusLabel, hubv1alpha1.StatusHealthy))
	for _, reason := range []string{hubv1alpha1.ReasonUnreachable, hubv1alpha1.ReasonProbeFailed, hubv1alpha1.ReasonTargetUnreachable} {
		p.Expect(p.events("target", reason)).To(BeEmpty())
	}
	p.Expect(p.value(target, "mr-0")).To(Equal("edited while it slept"))

	p.Expect(target.Start()).To(Succeed())
	p.annotate(targetCluster(p, "target"), hubv1alpha1.HibernatedAnnotation, "null")
	for _, name := range []string{"mr-0", "mr-1", "mr-2"} {
		p.Eventually(func() string { return p.value(target, name) }).Should(Equal("2"), name)
	}
	p.eventuallyReady("mr")
	p.eventually("target", hubv1alpha1.ConditionReady, "True/Ready")
	p.expectCare(target, "mr-2", "2")
	p.Expect(p.writes(target, "delete")).To(BeEmpty())
}
