package run

import (
	"slices"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/controllers/managedresource/source/assignment"
	"github.com/trellis-hub/trellis/engine/apply"
	"github.com/trellis-hub/trellis/engine/bundle"
	"github.com/trellis-hub/trellis/engine/inventory"
)

// Subject is what a run is about: a ManagedResource, where it belongs, and what is remembered of it. Only the goroutine
// of the run uses it.
type Subject struct {
	Name  types.NamespacedName
	State *State
	Clock clock.PassiveClock
	Log   logr.Logger

	// MR is the state that the next write is based on. It is replaced by what the server answers. It is nil until the
	// ManagedResource was fetched.
	MR *resourcesv1alpha1.ManagedResource
	// Decision is where the ManagedResource belongs, Class and Target are a part of it. They are zero until it was made;
	// Target stays zero if there is none.
	Decision assignment.Decision
	Class    *assignment.Class
	Target   clustercache.ClusterKey

	Session *bundle.Session // the use of the bundle, nil if there is none
	Access  apply.Target    // the clients of the target; zero before they are needed
}

// Origin is what the annotation of the ManagedResource's objects says about where they come from.
func (s *Subject) Origin() string { return s.Class.Origin(s.Name) }

// BoundUID is that of the cluster which the ManagedResource is bound to; empty if it is to none.
func (s *Subject) BoundUID() types.UID {
	return types.UID(s.MR.Annotations[hubv1alpha1.TargetUIDAnnotation])
}

// Goes reports whether the ManagedResource is to be cleaned up.
func (s *Subject) Goes() bool { return s.MR.DeletionTimestamp != nil || s.Decision.Leaving }

// NeedsNoTarget reports whether all that is left to do is to let go of the ManagedResource.
func (s *Subject) NeedsNoTarget() bool {
	return s.Goes() && (len(s.MR.Status.Resources) == 0 || ptr.Deref(s.MR.Spec.KeepObjects, false))
}

// Marked reports whether the ManagedResource bears the finalizer of its class.
func (s *Subject) Marked() bool { return slices.Contains(s.MR.Finalizers, s.Class.Finalizer) }

// EndSession gives back what the run has of the memory for bundles. The bundle must not be used any longer.
func (s *Subject) EndSession() {
	if s.Session != nil {
		s.Session.Close()
		s.Session = nil
	}
}

// Book finds what the ManagedResource lists.
func (s *Subject) Book() inventory.Lookup {
	return inventory.NewLookup(s.MR.Status.Resources, inventory.NewEquivalences(s.MR.Spec.Equivalences...))
}
