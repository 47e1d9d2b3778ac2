package registrations

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/hack/testbed"
)

func TestRegistrationInUseGoesWhenThatIsConfirmed(t *testing.T) {
	p := newPlace(t, 1)
	target := p.targets[0]
	p.register("target", target)
	p.manage("mr", "1", 2)
	p.eventuallyReady("mr")
	secret := testbed.Registration(p.name, "target", nil)
	p.Eventually(func() *hubv1alpha1.ManagedResourceCounts { return p.target("target").Status.ManagedResources }).Should(HaveField("Total", BeEquivalentTo(1)))
	p.Eventually(func() error { return source.Client.Delete(p.ctx, secret, client.DryRunAll) }).Should(MatchError(And(
		ContainSubstring("1 ManagedResources need this registration"), ContainSubstring("confirmation.gardener.cloud/deletion=true"))))
	p.Expect(source.Client.Delete(p.ctx, targetCluster(p, "target"))).To(MatchError(apierrors.IsForbidden, "forbidden"))
	p.unregister("target")
	p.eventuallyMR("mr", resourcesv1alpha1.ConditionReady, "False/TargetNotFound")
	// For a moment it might still be cleaned up.
	p.Eventually(func() string { return p.condition("target", hubv1alpha1.ConditionReady) }).Should(And(
		HavePrefix("False/RegistrationGone"), ContainSubstring("still have their objects")))
	p.deleteMR("mr")
	p.eventuallyEvent("mr", "ObjectsReleased", "2 objects stay behind")
	p.eventuallyGone(targetCluster(p, "target")) // the hub needs no confirmation
	p.Expect(p.managed(target)).To(Equal(2))
}

// TestNamespacesThatAreDeletedWhole lets the namespace controller choose the order in which things go.
func TestNamespacesThatAreDeletedWhole(t *testing.T) {
	for range 6 {
		t.Run("", func(t *testing.T) {
			p := newPlace(t, 1)
			target := p.targets[0]
			p.register("target", target)
			p.manage("a", "1", 5)
			p.manage("b", "2", 5)
			p.eventuallyReady("a", "b")
			p.Expect(p.managed(target)).To(Equal(10))
			ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: p.name}}
			p.Expect(source.Client.Delete(p.ctx, ns)).To(Succeed())
			p.eventuallyGone(ns)
			p.Expect(p.managed(target)).To(BeZero())
		})
	}
}

func TestNamespaceOfADeadTargetGoes(t *testing.T) {
	p := newPlace(t, 1)
	target := p.targets[0]
	p.register("target", target)
	p.manage("mr", "1", 3)
	p.eventuallyReady("mr")
	p.Expect(target.Stop()).To(Succeed())
	p.eventually("target", hubv1alpha1.ConditionReady, "False/Unreachable")
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: p.name}}
	p.Expect(source.Client.Delete(p.ctx, ns)).To(Succeed())
	p.eventuallyGone(ns)
	// Nothing can be written into a namespace that goes, events included; the log has it.
	p.Expect(hub.Log.About(p.name)).To(ContainSubstring("Left an object in the target"))
	p.Expect(p.managed(target)).To(Equal(3))
}

func TestTargetThatIsDeadForEver(t *testing.T) {
	p := newPlace(t, 1)
	target := p.targets[0]
	p.register("target", target)
	p.manage("forced", "1", 2)
	p.manage("released", "1", 2)
	p.manage("kept", "1", 2)
	p.eventuallyReady("forced", "released", "kept")
	p.Expect(target.Stop()).To(Succeed())
	p.eventually("target", hubv1alpha1.ConditionReady, "False/Unreachable")
	p.eventuallyEvent("target", hubv1alpha1.ReasonUnreachable, "")
	for _, name := range []string{"forced", "released"} {
		p.deleteMR(name)
		p.eventuallyMR(name, resourcesv1alpha1.ConditionResourcesApplied, "Progressing/DeletionPending")
		p.Eventually(func() string { return p.ofMR(name, resourcesv1alpha1.ConditionResourcesApplied) }).Should(And(
			ContainSubstring("Waiting for the target cluster to delete 2 objects"), ContainSubstring("confirmation.gardener.cloud/force-deletion=true")))
	}
	p.annotate(testbed.ManagedResource(p.name, "forced"), resourcesv1alpha1.ForceDeletionAnnotation, "true")
	p.eventuallyGone(testbed.ManagedResource(p.name, "forced"))
	p.eventuallyEvent("forced", "ObjectsReleased", "2 objects stay behind")

	p.unregister("target")
	p.eventuallyGone(testbed.ManagedResource(p.name, "released"))
	p.eventuallyEvent("released", "ObjectsReleased", "2 objects stay behind")
	p.eventuallyMR("kept", resourcesv1alpha1.ConditionReady, "False/TargetNotFound")
	p.deleteMR("kept")
	p.eventuallyGone(testbed.ManagedResource(p.name, "kept"))
	p.eventuallyGone(targetCluster(p, "target"))
	p.Expect(p.managed(target)).To(Equal(6))
}
