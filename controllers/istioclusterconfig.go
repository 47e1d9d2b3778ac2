package controllers

import (
	"context"

	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/controllers/istioclusterconfig"
	"github.com/trellis-hub/trellis/leader/heartbeat"
)

func newIstioClusterConfig(_ context.Context, t *term) (controller, error) {
	//nolint:contextcheck // its callbacks get no context to pass on
	filters, err := istioclusterconfig.New(istioclusterconfig.Options{
		Environment: t.inTargets(istioclusterconfig.Name),
		Settings: func(target clustercache.Status) (istioclusterconfig.Settings, bool) {
			own := t.Settings.Controllers(target).IstioClusterConfiguration
			if own == nil {
				return istioclusterconfig.Settings{}, false
			}
			return istioclusterconfig.Settings{ConcurrentSyncs: int(*own.ConcurrentSyncs)}, true
		},
		Follow: t.followControllers,
	})
	if err != nil {
		return controller{}, err //nolint:wrapcheck // New says which controller
	}
	return controller{filters.Start, []heartbeat.Loop{
		{Name: istioclusterconfig.Name, StuckSince: filters.StuckSince},
	}}, nil
}
