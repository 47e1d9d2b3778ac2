package managedresource

import (
	"context"
	"slices"
	"time"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/controllers/internal/targetfacts"
)

// memoryTimeout bounds reads that are answered by informers and cannot take long.
const memoryTimeout = time.Second

// Facts implements targetfacts.Publisher.
func (c *Controller) Facts(cluster clustercache.ClusterKey) targetfacts.Facts {
	s := targetfacts.Facts{DriftLastHour: int64(c.options.Metrics.driftLastHour(cluster, c.options.Clock.Now()))}
	if slices.ContainsFunc(c.options.Classes, func(class ClassOptions) bool { return class.DryRun }) {
		s.DryRun = c.reconciler.memory.dryRuns(cluster)
	}
	return s
}

// dryRuns adds up the dry runs of a target, nil if there was none.
func (m *memory) dryRuns(cluster clustercache.ClusterKey) *hubv1alpha1.DryRunReport {
	m.mu.Lock()
	defer m.mu.Unlock()
	var sum *hubv1alpha1.DryRunReport
	for _, e := range m.each {
		if e.dryRun == nil || e.target != cluster {
			continue
		}
		if sum == nil {
			sum = &hubv1alpha1.DryRunReport{}
		}
		sum.Creates += e.dryRun.Creates
		sum.Updates += e.dryRun.Updates
		sum.Deletes += e.dryRun.Deletes
	}
	return sum
}

// WorksIn implements targetfacts.Publisher.
func (c *Controller) WorksIn(cluster clustercache.ClusterKey) bool {
	return len(c.tracker.In(cluster)) > 0
}

// ManagedElsewhere implements targetfacts.Publisher: a Gardener resource manager may hold a namespace.
func (c *Controller) ManagedElsewhere(namespace string) (manager string, elsewhere bool) {
	ctx, cancel := context.WithTimeout(context.Background(), memoryTimeout)
	defer cancel()
	until, err := c.claims.ManagedElsewhere(ctx, namespace)
	return "gardener-resource-manager", err == nil && !until.IsZero()
}
