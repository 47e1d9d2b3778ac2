package managedresource_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/hack/controlplane"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// lease is that of a Gardener resource manager, renewed now.
func (p place) lease(duration int32) *coordinationv1.Lease {
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.ns, Name: "gardener-resource-manager"},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: ptr.To("grm_1"), LeaseDurationSeconds: &duration, RenewTime: ptr.To(metav1.NowMicro()), AcquireTime: ptr.To(metav1.NowMicro()),
		},
	}
}

func TestNamespaceOfAResourceManagerIsLeftToIt(t *testing.T) {
	t.Parallel()
	const forLong = 3600
	for name, test := range map[string]struct {
		duration int32
		end      func(p place)
	}{
		"until the Lease goes": {duration: forLong, end: func(p place) {
			p.Expect(source.Client.Delete(p.ctx, p.lease(0))).To(Succeed())
		}},
		"until the Lease is given up": {duration: forLong, end: func(p place) {
			lease := p.lease(0)
			p.edit(source, lease, func() { lease.Spec.HolderIdentity = ptr.To("") })
		}},
		"until the Lease expires": {duration: forLong, end: func(p place) {
			lease := p.lease(0)
			p.edit(source, lease, func() {
				lease.Spec.LeaseDurationSeconds, lease.Spec.RenewTime = ptr.To(int32(2)), ptr.To(metav1.NowMicro())
			})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := unregistered(t, nil)
			lease := p.lease(test.duration)
			p.inSource(lease)
			p.content("content", testbed.ConfigMap(p.ns, "one", "1"))
			mr := testbed.ManagedResource(p.ns, "mr", "content")
			mr.Annotations = map[string]string{resourcesv1alpha1.OperationAnnotation: resourcesv1alpha1.OperationReconcile}
			p.inSource(mr)
			p.register("a", target.Kubeconfig())
			p.awaitTarget("a", hubv1alpha1.ConditionReady, metav1.ConditionFalse, hubv1alpha1.ReasonManagedElsewhere, "gardener-resource-manager", "stop it")
			p.edit(source, lease, func() { lease.Spec.RenewTime = ptr.To(metav1.NowMicro()) })
			p.content("content", testbed.ConfigMap(p.ns, "one", "2"))
			registered(t).fence()
			p.Expect(p.get("mr")).To(Equal(mr))
			p.Expect(p.requests(source, func(e controlplane.AuditEntry) bool { return p.writes(e) && e.Resource != "targetclusters" })).To(BeEmpty())
			p.Expect(p.requests(target, p.inNamespace)).To(BeEmpty())

			test.end(p)
			p.awaitReady("mr")
			p.awaitValue("one", "2")
			p.awaitTarget("a", hubv1alpha1.ConditionReady, metav1.ConditionTrue, hubv1alpha1.ReasonDuplicateRegistration)
		})
	}
}

// Other classes have finalizers of their own, so they work beside it.
func TestResourceManagerDoesNotHoldOtherClasses(t *testing.T) {
	t.Parallel()
	p := unregistered(t, map[string]string{"seed": "true"})
	p.inSource(p.lease(3600))
	p.content("content", testbed.ConfigMap(p.ns, "one", "1"))
	mr := testbed.ManagedResource(p.ns, "mr", "content")
	mr.Spec.Class = ptr.To("seed")
	p.inSource(mr)
	p.awaitReady("mr")
}

// A resource manager that starts in a namespace of ours gets it: two of them would undo each other's work.
func TestResourceManagerThatComesLaterTakesOver(t *testing.T) {
	t.Parallel()
	p := registered(t)
	p.content("content", testbed.ConfigMap(p.ns, "one", "1"))
	p.mr("mr", "content")
	p.awaitReady("mr")
	p.inSource(p.lease(3600))
	p.awaitTarget("a", hubv1alpha1.ConditionReady, metav1.ConditionFalse, hubv1alpha1.ReasonManagedElsewhere)
	cm := p.configMap("one")
	p.edit(target, cm, func() { cm.Data["key"] = "of the other one" })
	registered(t).fence()
	p.awaitValue("one", "of the other one")
	p.Expect(source.Client.Delete(p.ctx, p.lease(0))).To(Succeed())
	p.awaitValue("one", "1")
	p.awaitReady("mr")
	p.Expect(p.get("mr").Finalizers).To(ConsistOf(resourcesv1alpha1.FinalizerBase))
}

// An expired Lease, or another one, means nothing.
func TestOtherLeasesMeanNothing(t *testing.T) {
	t.Parallel()
	p := unregistered(t, nil)
	expired := p.lease(1)
	expired.Spec.RenewTime = ptr.To(metav1.NewMicroTime(time.Now().Add(-time.Hour)))
	other := p.lease(3600)
	other.Name = "gardenlet"
	p.inSource(expired, other)
	p.register("a", target.Kubeconfig())
	p.fence()
}
