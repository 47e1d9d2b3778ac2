package prune_test

import (
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/engine/inventory"
	"github.com/trellis-hub/trellis/engine/prune"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// An object that is left to another ManagedResource must not bear our origin: then that one could not delete it.
func TestObjectThatAnotherManagedResourceListsLosesOurOrigin(t *testing.T) {
	g := NewWithT(t)
	cm := configMap(g, testbed.Namespace(t, nil, cluster), "a", nil)
	refs := []resourcesv1alpha1.ObjectReference{entry(cm, cm.UID)}
	ours, theirs := policy, policy
	ours.ListedByOther = func(inventory.Key) bool { return true }
	theirs.Origin = "garden/other"

	g.Expect(prune.Objects(t.Context(), access, refs, ours)[0].Result).To(Equal(prune.Kept))
	g.Expect(cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(cm), cm)).To(Succeed())
	g.Expect(cm.Annotations).NotTo(HaveKey(resourcesv1alpha1.OriginAnnotation))
	g.Expect(prune.Objects(t.Context(), access, refs, theirs)[0].Result).To(Equal(prune.Gone))
	g.Expect(exists(g, cm)).To(BeFalse())
}

// Of two that give up an object at the same time, one finds the origin of the other on it, and that one finds that it
// is still listed. One of them has to delete it.
func TestOneOfTwoThatGiveUpAnObjectDeletesIt(t *testing.T) {
	g := NewWithT(t)
	namespace := testbed.Namespace(t, nil, cluster)
	ours, theirs := policy, policy
	ours.Origin = "garden/other"
	var declined []inventory.Key

	left := configMap(g, namespace, "left", nil)
	theirs.ListedByOther = func(inventory.Key) bool { return len(declined) == 0 }
	ours.Disclaim = func(k inventory.Key) { // the moment after we have read the object
		g.Expect(prune.Objects(t.Context(), access, []resourcesv1alpha1.ObjectReference{entry(left, left.UID)}, theirs)[0].Result).To(Equal(prune.Kept))
		declined = append(declined, k)
	}
	g.Expect(prune.Objects(t.Context(), access, []resourcesv1alpha1.ObjectReference{entry(left, left.UID)}, ours)[0].Result).To(Equal(prune.Gone))
	g.Expect(exists(g, left)).To(BeFalse())
	g.Expect(declined).To(HaveLen(1))

	theirsStill := configMap(g, namespace, "theirs", nil)
	ours.Disclaim = func(k inventory.Key) { declined = append(declined, k) }
	refs := []resourcesv1alpha1.ObjectReference{entry(theirsStill, theirsStill.UID)}
	out := prune.Objects(t.Context(), access, refs, ours)[0]
	g.Expect(out.Result).To(Equal(prune.Kept))
	g.Expect(out.Reason).To(ContainSubstring("its origin is"))
	g.Expect(declined).To(HaveLen(2))
	g.Expect(prune.Objects(t.Context(), access, refs, theirs)[0].Result).To(Equal(prune.Gone),
		"it is deleted by the one for which no other ManagedResource lists it")
}
