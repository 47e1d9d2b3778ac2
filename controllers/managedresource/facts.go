package managedresource

import (
	"context"
	"slices"

	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/controllers/internal/targetfacts"
	"github.com/trellis-hub/trellis/controllers/managedresource/telemetry"
	"github.com/trellis-hub/trellis/controllers/managedresource/workers"
)

// Facts implements targetfacts.Publisher.
func (c *Controller) Facts(cluster clustercache.ClusterKey) targetfacts.Facts {
	s := targetfacts.Facts{DriftLastHour: int64(c.options.Metrics.DriftLastHour(cluster, c.options.Clock.Now()))}
	if slices.ContainsFunc(c.options.Classes, func(class workers.Class) bool { return class.DryRun }) {
		s.DryRun = c.reconciler.dryRuns.Sum(cluster)
	}
	return s
}

// WorksIn implements targetfacts.Publisher.
func (c *Controller) WorksIn(cluster clustercache.ClusterKey) bool {
	return len(c.tracker.In(cluster)) > 0
}

// ManagedElsewhere implements targetfacts.Publisher: a Gardener resource manager may hold a namespace.
func (c *Controller) ManagedElsewhere(namespace string) (manager string, elsewhere bool) {
	ctx, cancel := context.WithTimeout(context.Background(), telemetry.CacheTimeout)
	defer cancel()
	until, err := c.assigner.ManagedElsewhere(ctx, namespace)
	return "gardener-resource-manager", err == nil && !until.IsZero()
}
