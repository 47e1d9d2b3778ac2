package settings

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1alpha1 "github.com/trellis-hub/trellis/apis/config/v1alpha1"
	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/controllers/internal/informers"
)

// Controllers returns what works in a target: controllers that are switched on, with all their fields. Those whose
// settings are faulty are left out, and all are for a target that is paused.
func (s *Settings) Controllers(target clustercache.Status) hubv1alpha1.TargetControllers {
	return ControllersOf(s.classes, target, s.targetCluster(target.Cluster))
}

// ControllersOf does the same by some classes, and the TargetCluster of the target, which may be nil. Of target,
// Cluster and Labels are looked at.
func ControllersOf(
	classes []configv1alpha1.Class, target clustercache.Status, tc *hubv1alpha1.TargetCluster,
) hubv1alpha1.TargetControllers {
	if tc != nil && tc.Spec.Paused {
		return hubv1alpha1.TargetControllers{}
	}
	merged := (&Settings{classes: classes}).merged(target, tc)
	return merged.WithoutFaulty(target.Cluster.Namespace)
}

// Faults returns what is wrong with the settings of a target's controllers, as fields of its TargetCluster.
func (s *Settings) Faults(target clustercache.Status) field.ErrorList {
	merged := s.merged(target, s.targetCluster(target.Cluster))
	return merged.Faults(target.Cluster.Namespace, field.NewPath("spec", "controllers"))
}

// CollectsGarbage tells whether the hub is meant to collect the garbage of a target, be it paused, or the garbage
// collector's settings faulty.
func (s *Settings) CollectsGarbage(target clustercache.Status) bool {
	merged := s.merged(target, s.targetCluster(target.Cluster))
	return merged.GarbageCollector != nil && merged.GarbageCollector.Enabled != nil && *merged.GarbageCollector.Enabled
}

// merged are the controllers of the target's class, with what its TargetCluster has instead.
func (s *Settings) merged(target clustercache.Status, tc *hubv1alpha1.TargetCluster) hubv1alpha1.TargetControllers {
	class := s.classOf(target)
	if class == nil || class.DryRun {
		return hubv1alpha1.TargetControllers{}
	}
	merged := class.Controllers
	if tc != nil {
		merged = merged.Merge(tc.Spec.Controllers)
	}
	merged = *merged.DeepCopy() // what is shared is not to get defaults
	merged.SetDefaults()
	return merged
}

// classOf returns the class whose controllers work in a target; nil if there is none. A class that names the target is
// preferred to the one whose name is on the registration: the operator has decided on it.
func (s *Settings) classOf(target clustercache.Status) *configv1alpha1.Class {
	var served *configv1alpha1.Class
	for i := range s.classes {
		class := &s.classes[i]
		switch class.Target.Type {
		case configv1alpha1.TargetSource:
			if target.Cluster.Namespace == "" && (served == nil || len(class.Controllers.Enabled()) > 0) {
				served = class
			}
		case configv1alpha1.TargetRegistration:
			fixed := clustercache.ClusterKey{Namespace: class.Target.Namespace, Name: class.Target.Name}
			if target.Cluster == fixed && (!isFixed(served) || len(class.Controllers.Enabled()) > 0) {
				served = class
			}
		case configv1alpha1.TargetNamespace:
			label := target.Labels[hubv1alpha1.ClassLabel]
			if target.Cluster.Namespace != "" && served == nil && normalize(label) == normalize(class.Name) {
				served = class
			}
		}
	}
	return served
}

func isFixed(class *configv1alpha1.Class) bool {
	return class != nil && class.Target.Type == configv1alpha1.TargetRegistration
}

// normalize maps the names of the default class to the empty one.
func normalize(class string) string {
	if class == resourcesv1alpha1.DefaultClassName {
		return resourcesv1alpha1.DefaultClass
	}
	return class
}

// FollowControllers calls changed for each target whose TargetCluster says something else about its controllers, until
// ctx ends, at first for all that say something. What it began has ended when work is done. What follows from another
// label of a registration is for those to notice who follow registrations.
func (s *Settings) FollowControllers(
	ctx context.Context, work *sync.WaitGroup, changed func(clustercache.ClusterKey),
) error {
	//nolint:wrapcheck // it says what was watched
	return informers.Follow(ctx, s.cache, &hubv1alpha1.TargetCluster{}, work,
		func(before, after *hubv1alpha1.TargetCluster, _ bool) {
			if equality.Semantic.DeepEqual(controllersOf(before), controllersOf(after)) {
				return
			}
			if after == nil {
				after = before
			}
			changed(client.ObjectKeyFromObject(after))
		})
}

// said is what a TargetCluster says about controllers.
type said struct {
	Paused      bool
	Controllers *hubv1alpha1.TargetControllers
}

func controllersOf(tc *hubv1alpha1.TargetCluster) said {
	if tc == nil {
		return said{}
	}
	return said{tc.Spec.Paused, tc.Spec.Controllers}
}
