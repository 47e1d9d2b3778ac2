package app

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
)

// limits are those of the configuration, or of the TargetCluster where it has its own.
func (h *hub) limits(key clustercache.ClusterKey) clustercache.Limits {
	c := h.Config.TargetClientConnection
	l := clustercache.Limits{QPS: float64(c.QPS), Burst: int(c.Burst), MaxInFlight: int(c.MaxInFlight), Timeout: c.Timeout.Duration}
	if tc := h.targetCluster(key); tc != nil && tc.Spec.Client != nil {
		return withOwn(l, *tc.Spec.Client)
	}
	return l
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

// asleep tells whether a target is marked as hibernated.
func (h *hub) asleep(key clustercache.ClusterKey) bool {
	tc := h.targetCluster(key)
	return tc != nil && hibernated(tc)
}

func hibernated(tc *hubv1alpha1.TargetCluster) bool {
	return resourcesv1alpha1.IsTruthy(tc.Annotations[hubv1alpha1.HibernatedAnnotation])
}

// targetCluster returns the TargetCluster of a registration, nil if there is none.
func (h *hub) targetCluster(key clustercache.ClusterKey) *hubv1alpha1.TargetCluster {
	if key.Namespace == "" {
		return nil
	}
	tc := &hubv1alpha1.TargetCluster{}
	// The answer comes from memory: nothing is dialled before connect.
	if h.manager.GetCache().Get(context.Background(), key, tc) != nil {
		return nil
	}
	return tc
}

// watchSettings has the connections follow what TargetClusters say of them, on every replica: a standby keeps its
// connections warm, and has to leave a hibernated target alone like the leader.
func (h *hub) watchSettings(ctx context.Context) error {
	informer, err := h.manager.GetCache().GetInformer(ctx, &hubv1alpha1.TargetCluster{})
	if err != nil {
		return fmt.Errorf("watching TargetClusters: %w", err)
	}
	changed := func(before, after *hubv1alpha1.TargetCluster) {
		if hibernated(before) != hibernated(after) || !equality.Semantic.DeepEqual(before.Spec.Client, after.Spec.Client) {
			h.clusters.Recheck(client.ObjectKeyFromObject(after))
		}
	}
	if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) {
			if tc, ok := obj.(*hubv1alpha1.TargetCluster); ok {
				changed(&hubv1alpha1.TargetCluster{}, tc)
			}
		},
		UpdateFunc: func(before, after any) {
			a, ok1 := before.(*hubv1alpha1.TargetCluster)
			b, ok2 := after.(*hubv1alpha1.TargetCluster)
			if ok1 && ok2 {
				changed(a, b)
			}
		},
		DeleteFunc: func(obj any) {
			if tombstone, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
				obj = tombstone.Obj
			}
			if tc, ok := obj.(*hubv1alpha1.TargetCluster); ok && (hibernated(tc) || tc.Spec.Client != nil) {
				h.clusters.Recheck(client.ObjectKeyFromObject(tc))
			}
		},
	}); err != nil {
		return fmt.Errorf("watching TargetClusters: %w", err)
	}
	return nil
}
