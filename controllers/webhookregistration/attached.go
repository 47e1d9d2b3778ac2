package webhookregistration

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
)

// Attached are the targets in which this replica has registered something, or may have, as long as it leads. It is
// what is left to know if a TargetCluster is deleted together with its registration, as with the namespace of both. The
// zero value has none.
type Attached struct {
	mu      sync.Mutex
	targets sets.Set[clustercache.ClusterKey]
}

func (a *Attached) add(key clustercache.ClusterKey) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.targets == nil {
		a.targets = sets.New[clustercache.ClusterKey]()
	}
	a.targets.Insert(key)
}

func (a *Attached) remove(key clustercache.ClusterKey) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.targets.Delete(key)
}

func (a *Attached) clear() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.targets = nil
}

func (a *Attached) has(key clustercache.ClusterKey) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.targets.Has(key)
}

// StillNeeded reports whether the connection to a target whose registration is gone is needed to delete configurations
// of webhooks there. source answers from memory. While it cannot, the answer is yes.
func (a *Attached) StillNeeded(source client.Reader, status clustercache.Status) bool {
	if status.State == clustercache.StateRefused || status.State == clustercache.StateHibernated {
		return false // nothing is sent to it
	}
	ctx, cancel := context.WithTimeout(context.Background(), memoryTimeout)
	defer cancel()
	tc := &hubv1alpha1.TargetCluster{}
	if err := source.Get(ctx, status.Cluster, tc, client.UnsafeDisableDeepCopy); err != nil {
		return client.IgnoreNotFound(err) != nil || a.has(status.Cluster)
	}
	return !tc.Spec.Paused && (conditionOf(tc) != nil || a.has(status.Cluster))
}
