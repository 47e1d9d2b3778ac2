package prune_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/engine/inventory"
	"github.com/trellis-hub/trellis/engine/prune"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// While it is not known which other ManagedResources list an object, it is neither deleted nor given up.
func TestObjectIsKeptUntilItIsKnownWhichOthersListIt(t *testing.T) {
	g := NewWithT(t)
	cm := configMap(g, testbed.Namespace(t, nil, cluster), "a", nil)
	refs := []resourcesv1alpha1.ObjectReference{entry(cm, cm.UID)}
	before := cm.ResourceVersion
	clock := clocktesting.NewFakePassiveClock(time.Now())
	undecided := policy
	undecided.Clock = clock
	undecided.Undecided = func(inventory.Key) bool { return true }
	undecided.ListedByOther = func(inventory.Key) bool { return false }

	out := prune.Objects(t.Context(), access, refs, undecided)
	g.Expect(out[0].Result).To(Equal(prune.Pending))
	g.Expect(out[0].Err).NotTo(HaveOccurred())
	g.Expect(prune.Due(out)).To(BeTemporally(">", clock.Now()))
	g.Expect(cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(cm), cm)).To(Succeed())
	g.Expect(cm.ResourceVersion).To(Equal(before), "its origin is still on it")
	g.Expect(cm.DeletionTimestamp).To(BeNil())

	undecided.Undecided = func(inventory.Key) bool { return false }
	g.Expect(prune.Objects(t.Context(), access, refs, undecided)[0].Result).To(Equal(prune.Gone))
	g.Expect(exists(g, cm)).To(BeFalse())
}
