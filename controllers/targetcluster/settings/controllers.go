package settings

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1alpha1 "github.com/trellis-hub/trellis/apis/config/v1alpha1"
	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/controllers/internal/informers"
	"github.com/trellis-hub/trellis/controllers/targetcluster/identity"
)

// Controllers returns what works in a target: controllers that are switched on, with all their fields. Those whose
// settings are faulty are left out, and all are for a target that is paused, and for a registration of a cluster that
// another one holds, or of one that is not known yet. Of target, Cluster, Labels and UID are looked at.
func (s *Settings) Controllers(target clustercache.Status) hubv1alpha1.TargetControllers {
	tc := s.targetCluster(target.Cluster)
	if !s.holders.Holds(target, tc) {
		return hubv1alpha1.TargetControllers{}
	}
	return ControllersOf(s.classes, target, tc)
}

// ControllersOf does the same by some classes, and the TargetCluster of the target, which may be nil, as if there were
// no other registration of the cluster.
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

// CollectsGarbage reports whether the hub is meant to collect the garbage of a target, be it paused, or the garbage
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

// classOf returns the class whose controllers and webhooks work in a target; nil if there is none. A class that names
// the target is preferred to the one whose name is on the registration: the operator has decided on it.
func (s *Settings) classOf(target clustercache.Status) *configv1alpha1.Class {
	var served *configv1alpha1.Class
	for i := range s.classes {
		class := &s.classes[i]
		switch class.Target.Type {
		case configv1alpha1.TargetSource:
			if target.Cluster.Namespace == "" && (served == nil || class.Works()) {
				served = class
			}
		case configv1alpha1.TargetRegistration:
			fixed := clustercache.ClusterKey{Namespace: class.Target.Namespace, Name: class.Target.Name}
			if target.Cluster == fixed && (!isFixed(served) || class.Works()) {
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

// FollowControllers calls changed for each target whose controllers may be others than before, until ctx ends: because
// of what its TargetCluster says about them, or because another registration of its cluster came or went. At first that
// are all that have a cluster, or say something. What it began has ended when work is done. Changed labels of
// registrations are not followed here: callers get these from the events of the cluster cache.
func (s *Settings) FollowControllers(
	ctx context.Context, work *sync.WaitGroup, changed func(clustercache.ClusterKey),
) error {
	return s.followClaims(ctx, work, saysOther, changed)
}

// followClaims calls changed for each target whose TargetCluster says something else, or whose cluster has other
// registrations than before.
func (s *Settings) followClaims(ctx context.Context, work *sync.WaitGroup,
	saysOther func(before, after *hubv1alpha1.TargetCluster) bool, changed func(clustercache.ClusterKey),
) error {
	//nolint:wrapcheck,contextcheck // it says what was watched, and what it calls reads a cache in memory
	return informers.Follow(ctx, s.cache, &hubv1alpha1.TargetCluster{}, work,
		func(before, after *hubv1alpha1.TargetCluster, _ bool) {
			key, was, is := keyOf(before, after), identity.ClaimOf(before), identity.ClaimOf(after)
			if was != is || saysOther(before, after) {
				changed(key)
			}
			if was == is {
				return
			}
			for _, uid := range []types.UID{was.UID, is.UID} {
				for _, same := range s.holders.Claimants(uid) {
					if same != key {
						changed(same)
					}
				}
			}
		})
}

// FollowFaults calls changed for each target whose TargetCluster says something else about its controllers or webhooks,
// as FollowControllers does, at first for all that say something.
func (s *Settings) FollowFaults(
	ctx context.Context, work *sync.WaitGroup, changed func(clustercache.ClusterKey),
) error {
	//nolint:wrapcheck // it says what was watched
	return informers.Follow(ctx, s.cache, &hubv1alpha1.TargetCluster{}, work,
		func(before, after *hubv1alpha1.TargetCluster, _ bool) {
			if saysOther(before, after) || saysOtherOfWebhooks(before, after) {
				changed(keyOf(before, after))
			}
		})
}

// InSource reports whether a configuration has controllers for the source.
func InSource(config *configv1alpha1.HubConfiguration) bool {
	s := &Settings{classes: config.Classes}
	merged := s.merged(clustercache.Status{}, nil)
	return len(merged.Enabled()) > 0
}

// keyOf is the key of a TargetCluster that has changed, came or went.
func keyOf(before, after *hubv1alpha1.TargetCluster) clustercache.ClusterKey {
	if after == nil {
		after = before
	}
	return client.ObjectKeyFromObject(after)
}

func saysOther(before, after *hubv1alpha1.TargetCluster) bool {
	return !equality.Semantic.DeepEqual(controllersOf(before), controllersOf(after))
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
