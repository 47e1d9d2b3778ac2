package settings

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"

	configv1alpha1 "github.com/trellis-hub/trellis/apis/config/v1alpha1"
	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
)

// Webhooks returns what is served for a target: webhooks that are switched on, with all their fields. Those whose
// settings are faulty are left out. A paused target has the same ones, since its API server still calls them.
func (s *Settings) Webhooks(target clustercache.Status) hubv1alpha1.TargetWebhooks {
	return WebhooksOf(s.classes, target, s.targetCluster(target.Cluster))
}

// WebhooksOf does the same by some classes, and the TargetCluster of the target, which may be nil. Of target, Cluster
// and Labels are looked at.
func WebhooksOf(
	classes []configv1alpha1.Class, target clustercache.Status, tc *hubv1alpha1.TargetCluster,
) hubv1alpha1.TargetWebhooks {
	merged := (&Settings{classes: classes}).mergedWebhooks(target, tc)
	return merged.WithoutFaulty(target.Cluster.Namespace)
}

// WebhookFaults returns what is wrong with the settings of a target's webhooks, as fields of its TargetCluster.
func (s *Settings) WebhookFaults(target clustercache.Status) field.ErrorList {
	merged := s.mergedWebhooks(target, s.targetCluster(target.Cluster))
	return merged.Faults(target.Cluster.Namespace, field.NewPath("spec", "webhooks"))
}

// mergedWebhooks are the webhooks of the target's class, with what its TargetCluster has instead.
func (s *Settings) mergedWebhooks(
	target clustercache.Status, tc *hubv1alpha1.TargetCluster,
) hubv1alpha1.TargetWebhooks {
	class := s.classOf(target)
	if class == nil || class.DryRun {
		return hubv1alpha1.TargetWebhooks{}
	}
	merged := class.Webhooks
	if tc != nil {
		merged = merged.Merge(tc.Spec.Webhooks)
	}
	merged = *merged.DeepCopy() // what is shared is not to get defaults
	merged.SetDefaults(class.WebhookScope())
	return merged
}

// Holds reports whether a registration is the one of its cluster that controllers work for. Another one of the same
// cluster must not touch what is registered there. Of target, Cluster, Labels and UID are looked at.
func (s *Settings) Holds(target clustercache.Status) bool {
	return s.holders.Holds(target, s.targetCluster(target.Cluster))
}

// FollowWebhooks calls changed for each target whose TargetCluster says something else about its webhooks, or whether
// it is paused, and for those whose cluster has other registrations than before, like FollowControllers.
func (s *Settings) FollowWebhooks(
	ctx context.Context, work *sync.WaitGroup, changed func(clustercache.ClusterKey),
) error {
	return s.followClaims(ctx, work, saysOtherOfWebhooks, changed)
}

func saysOtherOfWebhooks(before, after *hubv1alpha1.TargetCluster) bool {
	return !equality.Semantic.DeepEqual(webhooksOf(before), webhooksOf(after))
}

// saidOfWebhooks is what a TargetCluster says about webhooks.
type saidOfWebhooks struct {
	Paused   bool
	Webhooks *hubv1alpha1.TargetWebhooks
}

func webhooksOf(tc *hubv1alpha1.TargetCluster) saidOfWebhooks {
	if tc == nil {
		return saidOfWebhooks{}
	}
	return saidOfWebhooks{tc.Spec.Paused, tc.Spec.Webhooks}
}
