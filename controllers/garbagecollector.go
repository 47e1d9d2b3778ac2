package controllers

import (
	"context"

	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/controllers/garbagecollector"
	"github.com/trellis-hub/trellis/controllers/internal/multicluster"
	"github.com/trellis-hub/trellis/leader/heartbeat"
)

func newGarbageCollector(_ context.Context, t *term) (controller, error) {
	//nolint:contextcheck // its callbacks get no context to pass on
	collector, err := garbagecollector.New(t.inTargets(garbagecollector.Name), garbagecollector.Options{
		Settings: func(target clustercache.Status) (garbagecollector.Settings, bool) {
			return garbagecollector.SettingsOf(t.Settings.Controllers(target).GarbageCollector)
		},
		Follow:  t.followControllers,
		Clock:   t.Clock,
		Metrics: t.Metrics.Garbage,
	})
	if err != nil {
		return controller{}, err //nolint:wrapcheck // New says which controller
	}
	return controller{collector.Start, []heartbeat.Loop{
		{Name: garbagecollector.Name, StuckSince: collector.StuckSince},
	}}, nil
}

// inTargets is what controllers that work in targets share.
func (t *term) inTargets(name string) multicluster.Environment {
	return multicluster.Environment{
		Clusters: t.Clusters, Source: t.Cache, Events: t.Events, Metrics: t.Metrics.Targets, Clock: t.Clock,
		Logger: t.Logger.WithName(name),
	}
}
