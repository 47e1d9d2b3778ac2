package prune_test

import (
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/controllers/managedresource/inventory"
	"github.com/trellis-hub/trellis/controllers/managedresource/prune"
	"github.com/trellis-hub/trellis/hack/hubtest"
)

// An object that is left to another ManagedResource must not bear our origin: then that one could not delete it.
func TestObjectThatAnotherManagedResourceListsLosesOurOrigin(t *testing.T) {
	g := NewWithT(t)
	cm := configMap(g, hubtest.Namespace(t, nil, cluster), "a", nil)
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
