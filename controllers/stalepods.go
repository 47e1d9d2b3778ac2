package controllers

import (
	"context"

	"k8s.io/utils/ptr"

	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/controllers/stalepods"
	"github.com/trellis-hub/trellis/leader/heartbeat"
)

func newStalePods(_ context.Context, t *term) (controller, error) {
	//nolint:contextcheck // its callbacks get no context to pass on
	pods, err := stalepods.New(stalepods.Options{
		Environment: t.inTargets(stalepods.Name),
		Source:      t.Client,
		Settings: func(target clustercache.Status) (stalepods.Settings, bool) {
			own := t.Settings.Controllers(target).StalePods
			if own == nil {
				return stalepods.Settings{}, false
			}
			return stalepods.Settings{
				SyncPeriod: own.SyncPeriod.Duration, Namespaces: own.Namespaces,
				HomeNamespace: ptr.Deref(own.HomeNamespace, false),
			}, true
		},
		Follow:  t.followControllers,
		Metrics: t.Metrics.StalePods,
	})
	if err != nil {
		return controller{}, err //nolint:wrapcheck // New says which controller
	}
	return controller{pods.Start, []heartbeat.Loop{
		{Name: stalepods.Name, StuckSince: pods.StuckSince},
	}}, nil
}
