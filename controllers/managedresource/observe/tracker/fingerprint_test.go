package tracker_test

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/trellis-hub/trellis/controllers/managedresource/observe/tracker"
	"github.com/trellis-hub/trellis/engine/inventory"
	"github.com/trellis-hub/trellis/engine/ownership"
)

// ManagedResources have fingerprints in their annotations. If a version made other ones, it would apply all of a fleet
// again when it starts.
func TestFoldIsTheSameInEachVersion(t *testing.T) {
	g := NewWithT(t)
	g.Expect(tracker.Fingerprint(nil)).To(Equal("e3b0c44298fc1c149afbf4c8996fb924"))
	g.Expect(tracker.Fingerprint(map[inventory.Key]tracker.Accepted{
		{Kind: "ConfigMap", Namespace: "some", Name: "b"}: {UID: "u-1", State: ownership.State{Own: 1, Foreign: 1 << 63}},
		{Group: "apps", Kind: "Deployment", Namespace: "some", Name: "a"}: {
			UID: "u-2", ResourceVersion: "7", State: ownership.State{Own: 2, Labels: 3, Annotations: 4}, Autoscaled: true,
		},
	})).To(Equal("a5e04f1613caaac38a01119627e3d9bc"))
}
