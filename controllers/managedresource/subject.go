package managedresource

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

// subject is what a run is about: a ManagedResource, where it belongs, and what is remembered of it. Only the goroutine
// of the run uses it.
type subject struct {
	name  types.NamespacedName
	state *state
	clock clock.PassiveClock
	log   logr.Logger

	// mr is the state that the next write is based on. It is replaced by what the server answers.
	mr       *resourcesv1alpha1.ManagedResource
	decision assignment.Decision
	class    *assignment.Class
	target   clustercache.ClusterKey

	session *bundle.Session // the use of the bundle, nil if there is none
	access  apply.Target    // the clients of the target; zero before they are needed
}

// origin is what the annotation of the ManagedResource's objects says about where they come from.
func (s *subject) origin() string { return s.class.Origin(s.name) }

// boundUID is that of the cluster which the ManagedResource is bound to; empty if it is to none.
func (s *subject) boundUID() types.UID {
	return types.UID(s.mr.Annotations[hubv1alpha1.TargetUIDAnnotation])
}

// goes reports whether the ManagedResource is to be cleaned up.
func (s *subject) goes() bool { return s.mr.DeletionTimestamp != nil || s.decision.Leaving }

// needsNoTarget reports whether all that is left to do is to let go of the ManagedResource.
func (s *subject) needsNoTarget() bool {
	return s.goes() && (len(s.mr.Status.Resources) == 0 || ptr.Deref(s.mr.Spec.KeepObjects, false))
}

// marked reports whether the ManagedResource bears the finalizer of its class.
func (s *subject) marked() bool { return slices.Contains(s.mr.Finalizers, s.class.Finalizer) }

// endSession gives back what the run has of the memory for bundles. The bundle must not be used any longer.
func (s *subject) endSession() {
	if s.session != nil {
		s.session.Close()
		s.session = nil
	}
}

// book finds what the ManagedResource lists.
func (s *subject) book() inventory.Lookup {
	return inventory.NewLookup(s.mr.Status.Resources, inventory.NewEquivalences(s.mr.Spec.Equivalences...))
}
