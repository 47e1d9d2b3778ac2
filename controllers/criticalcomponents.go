package controllers

import (
	"context"

	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/controllers/criticalcomponents"
	"github.com/trellis-hub/trellis/leader/heartbeat"
)

func newCriticalComponents(_ context.Context, t *term) (controller, error) {
	//nolint:contextcheck // its callbacks get no context to pass on
	components, err := criticalcomponents.New(criticalcomponents.Options{
		Environment: t.inTargets(criticalcomponents.Name),
		Settings: func(target clustercache.Status) (criticalcomponents.Settings, bool) {
			return criticalcomponents.SettingsOf(t.Settings.Controllers(target).NodeCriticalComponents)
		},
		Follow:  t.followControllers,
		Metrics: t.Metrics.Nodes,
	})
	if err != nil {
		return controller{}, err //nolint:wrapcheck // New says which controller
	}
	return controller{components.Start, []heartbeat.Loop{
		{Name: criticalcomponents.Name, StuckSince: components.StuckSince},
	}}, nil
}
