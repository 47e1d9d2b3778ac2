package sharing_test

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/controllers/managedresource/source/sharing"
	"github.com/trellis-hub/trellis/engine/inventory"
)

var foreign = types.NamespacedName{Namespace: "other", Name: "a"}

// Claims of a ManagedResource of another namespace count only if the namespace was verified.
func TestOtherNamespacesCountOnlyIfVerified(t *testing.T) {
	only := func(namespace string) sharing.Verifier { return func(n string) bool { return n == namespace } }
	for name, tc := range map[string]struct {
		verified sharing.Verifier
		counts   bool
	}{
		"no namespace is verified": {nil, false},
		"another one is verified":  {only("third"), false},
		"it is verified":           {only("other"), true},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			x := sharing.NewIndex()
			x.Observe(mr(a, 1, "both"))
			x.Observe(mr(foreign, 2, "both"))
			match := func(inventory.Key) bool { return true }
			_, by, found := x.Any(cluster, a, tc.verified, match)
			g.Expect(found).To(Equal(tc.counts))
			others := x.Others(cluster, key("both"), a, tc.verified)
			if tc.counts {
				g.Expect(by).To(Equal(foreign))
				g.Expect(others).To(ConsistOf(foreign))
			} else {
				g.Expect(others).To(BeEmpty())
			}
			g.Expect(x.GiveUp(a, key("both"), tc.verified, cluster)).To(Equal(tc.counts))
		})
	}
}

// The verifier is asked about a namespace once, however many of its ManagedResources list an object.
func TestVerifierIsAskedOnce(t *testing.T) {
	g := NewWithT(t)
	x := sharing.NewIndex()
	x.Observe(mr(a, 1, "both"))
	for _, n := range []string{"1", "2", "3"} {
		x.Observe(mr(types.NamespacedName{Namespace: "other", Name: n}, 2, "both"))
	}
	asked := 0
	no := func(string) bool { asked++; return false }
	x.Others(cluster, key("both"), a, no)
	g.Expect(asked).To(Equal(1))
	x.Any(cluster, a, no, func(inventory.Key) bool { return true })
	g.Expect(asked).To(Equal(2))
	x.GiveUp(a, key("both"), no, cluster)
	g.Expect(asked).To(Equal(3))
}

// No annotation can be mistaken for the location of ManagedResources that are not bound, former representations included.
func TestPlacesOfDifferentKindsAreNeverTheSame(t *testing.T) {
	g := NewWithT(t)
	g.Expect(sharing.Location(sharing.Cluster(""))).NotTo(Equal(sharing.Location(sharing.Unbound{})))
	x := sharing.NewIndex()
	finalizer := resourcesv1alpha1.FinalizerBase
	unbound := mr(a, 1, "both")
	unbound.Annotations, unbound.Finalizers = nil, []string{finalizer}
	x.Observe(unbound)
	forged := mr(foreign, 2, "both")
	forged.Annotations = map[string]string{hubv1alpha1.TargetUIDAnnotation: "unbound/ns/" + finalizer}
	x.Observe(forged)
	yes := func(string) bool { return true }
	g.Expect(x.Others(sharing.Unbound{Namespace: "ns", Finalizer: finalizer}, key("both"), b, yes)).To(ConsistOf(a))
	g.Expect(x.Others(sharing.Cluster("unbound/ns/"+finalizer), key("both"), b, yes)).To(ConsistOf(foreign))
}

// The index by namespaces drops ManagedResources that list nothing any longer, and keeps those that still list
// something.
func TestAnyAfterChanges(t *testing.T) {
	g := NewWithT(t)
	x := sharing.NewIndex()
	finds := func() bool {
		_, _, found := x.Any(cluster, b, nil, func(inventory.Key) bool { return true })
		return found
	}
	x.Observe(mr(a, 1, "1", "2"))
	g.Expect(finds()).To(BeTrue())
	x.Observe(mr(a, 2, "2"))
	g.Expect(finds()).To(BeTrue())
	x.Observe(mr(a, 3, "2", "3"))
	g.Expect(finds()).To(BeTrue())
	x.Observe(mr(a, 4))
	g.Expect(finds()).To(BeFalse())
	x.Observe(mr(a, 5, "4"))
	going := mr(a, 6, "4")
	going.DeletionTimestamp = &metav1.Time{}
	x.Observe(going)
	g.Expect(finds()).To(BeFalse())
	x.Forget(a, types.UID(a.Name))
	g.Expect(finds()).To(BeFalse())
}
