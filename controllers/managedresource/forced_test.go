package managedresource

import (
	"testing"

	. "github.com/onsi/gomega"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/controllers/managedresource/run"
)

// To give up on a target helps if it cannot be reached, and does nothing otherwise.
func TestForcedDeletionIsAdvisedWhereItHelps(t *testing.T) {
	g := NewWithT(t)
	work := &scope{Subject: run.Subject{MR: &resourcesv1alpha1.ManagedResource{}}}
	key := clustercache.ClusterKey{Namespace: "a", Name: "b"}
	for state, helps := range map[clustercache.State]bool{
		clustercache.StateDisconnected: true, clustercache.StateRefused: true,
		clustercache.StateDraining: false, clustercache.StateConnected: false,
	} {
		advice := ContainSubstring(resourcesv1alpha1.ForceDeletionAnnotation)
		if !helps {
			advice = Not(advice)
		}
		g.Expect(waitsForTarget(work, key, clustercache.Status{State: state})).To(
			SatisfyAll(HavePrefix("Waiting for the target cluster"), advice), string(state))
	}
}
