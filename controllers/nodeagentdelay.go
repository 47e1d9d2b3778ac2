package controllers

import (
	"context"

	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/controllers/nodeagentdelay"
	"github.com/trellis-hub/trellis/leader/heartbeat"
)

func newNodeAgentDelay(_ context.Context, t *term) (controller, error) {
	//nolint:contextcheck // its callbacks get no context to pass on
	delays, err := nodeagentdelay.New(nodeagentdelay.Options{
		Environment: t.inTargets(nodeagentdelay.Name),
		Settings: func(target clustercache.Status) (nodeagentdelay.Settings, bool) {
			own := t.Settings.Controllers(target).NodeAgentReconciliationDelay
			if own == nil {
				return nodeagentdelay.Settings{}, false
			}
			return nodeagentdelay.Settings{MinDelay: own.MinDelay.Duration, MaxDelay: own.MaxDelay.Duration}, true
		},
		Follow: t.followControllers,
	})
	if err != nil {
		return controller{}, err //nolint:wrapcheck // New says which controller
	}
	return controller{delays.Start, []heartbeat.Loop{
		{Name: nodeagentdelay.Name, StuckSince: delays.StuckSince},
	}}, nil
}
