package settings

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1alpha1 "github.com/trellis-hub/trellis/apis/config/v1alpha1"
	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/controllers/internal/informers"
	"github.com/trellis-hub/trellis/controllers/targetcluster/identity"
)

// Settings answer from the informer of TargetClusters. Make them with New.
type Settings struct {
	cache    cache.Cache
	defaults clustercache.Limits
	classes  []configv1alpha1.Class
	holders  *identity.Holders
}

// New returns the settings by an informer, with those of the configuration for targets that have none of their own.
// holders say for which of several registrations of a cluster controllers work; nil: for all of them.
func New(c cache.Cache, config *configv1alpha1.HubConfiguration, holders *identity.Holders) *Settings {
	defaults := config.TargetClientConnection
	return &Settings{cache: c, classes: config.Classes, holders: holders, defaults: clustercache.Limits{
		QPS: float64(defaults.QPS), Burst: int(defaults.Burst), MaxInFlight: int(defaults.MaxInFlight),
		Timeout: defaults.Timeout.Duration,
	}}
}

// Limits are those of the configuration, or of the TargetCluster where it has its own.
func (s *Settings) Limits(target clustercache.ClusterKey) clustercache.Limits {
	if tc := s.targetCluster(target); tc != nil && tc.Spec.Client != nil {
		return withOwn(s.defaults, *tc.Spec.Client)
	}
	return s.defaults
}

func withOwn(l clustercache.Limits, own hubv1alpha1.ClientLimits) clustercache.Limits {
	if own.QPS != 0 {
		l.QPS = float64(own.QPS)
	}
	if own.Burst != 0 {
		l.Burst = int(own.Burst)
	}
	if own.MaxInFlight != 0 {
		l.MaxInFlight = int(own.MaxInFlight)
	}
	return l
}

// Hibernated reports whether a target is marked as hibernated.
func (s *Settings) Hibernated(target clustercache.ClusterKey) bool {
	return hibernated(s.targetCluster(target))
}

func hibernated(tc *hubv1alpha1.TargetCluster) bool {
	return tc != nil && resourcesv1alpha1.IsTruthy(tc.Annotations[hubv1alpha1.HibernatedAnnotation])
}

// targetCluster returns the TargetCluster of a registration, nil if there is none. It belongs to the informer.
func (s *Settings) targetCluster(target clustercache.ClusterKey) *hubv1alpha1.TargetCluster {
	if target.Namespace == "" {
		return nil
	}
	tc := &hubv1alpha1.TargetCluster{}
	// The answer comes from memory: nothing is dialled before the informer has shown what is there.
	if s.cache.Get(context.Background(), target, tc, client.UnsafeDisableDeepCopy) != nil {
		return nil
	}
	return tc
}

// Follow calls changed for each target whose settings have changed, until ctx ends. What it began has ended when work
// is done.
func (s *Settings) Follow(ctx context.Context, work *sync.WaitGroup, changed func(clustercache.ClusterKey)) error {
	//nolint:wrapcheck // it says what was watched
	return informers.Follow(ctx, s.cache, &hubv1alpha1.TargetCluster{}, work,
		func(before, after *hubv1alpha1.TargetCluster, _ bool) {
			if hibernated(before) == hibernated(after) && equality.Semantic.DeepEqual(limitsOf(before), limitsOf(after)) {
				return
			}
			if after == nil {
				after = before
			}
			changed(client.ObjectKeyFromObject(after))
		})
}

func limitsOf(tc *hubv1alpha1.TargetCluster) *hubv1alpha1.ClientLimits {
	if tc == nil {
		return nil
	}
	return tc.Spec.Client
}
