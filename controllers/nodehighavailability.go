package controllers

import (
	"context"

	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/controllers/nodehighavailability"
	"github.com/trellis-hub/trellis/leader/heartbeat"
)

func newNodeHighAvailability(_ context.Context, t *term) (controller, error) {
	//nolint:contextcheck // its callbacks get no context to pass on
	spread, err := nodehighavailability.New(nodehighavailability.Options{
		Environment: t.inTargets(nodehighavailability.Name),
		Enabled: func(target clustercache.Status) bool {
			return t.Settings.Controllers(target).NodeHighAvailability != nil
		},
		Follow: t.followControllers,
	})
	if err != nil {
		return controller{}, err //nolint:wrapcheck // New says which controller
	}
	return controller{spread.Start, []heartbeat.Loop{
		{Name: nodehighavailability.Name, StuckSince: spread.StuckSince},
	}}, nil
}
