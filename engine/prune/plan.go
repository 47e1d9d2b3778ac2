package prune

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/engine/inventory"
)

// KeptBecause returns why Objects would keep a live object, for plans; empty if it would delete it.
func KeptBecause(live *metav1.PartialObjectMetadata, ref resourcesv1alpha1.ObjectReference, policy Policy) string {
	if policy.Undecided != nil && policy.Undecided(inventory.KeyOf(ref)) {
		return "it is not known yet which other ManagedResources have a say in it"
	}
	if policy.ListedByOther != nil && policy.ListedByOther(inventory.KeyOf(ref)) {
		return "another ManagedResource lists it"
	}
	reason, _ := keepReason(live, ref, policy)
	return reason
}
