package controllers

import (
	"context"

	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/controllers/networkpolicy"
	"github.com/trellis-hub/trellis/leader/heartbeat"
)

func newNetworkPolicy(_ context.Context, t *term) (controller, error) {
	//nolint:contextcheck // its callbacks get no context to pass on
	policies, err := networkpolicy.New(networkpolicy.Options{
		Environment: t.inTargets(networkpolicy.Name),
		Settings: func(target clustercache.Status) (networkpolicy.Settings, bool) {
			return networkpolicy.SettingsOf(t.Settings.Controllers(target).NetworkPolicy)
		},
		Follow:  t.followControllers,
		Metrics: t.Metrics.Policies,
	})
	if err != nil {
		return controller{}, err //nolint:wrapcheck // New says which controller
	}
	return controller{policies.Start, []heartbeat.Loop{
		{Name: networkpolicy.Name, StuckSince: policies.StuckSince},
	}}, nil
}
