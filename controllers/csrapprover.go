package controllers

import (
	"context"

	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/controllers/csrapprover"
	"github.com/trellis-hub/trellis/leader/heartbeat"
)

func newCSRApprover(_ context.Context, t *term) (controller, error) {
	//nolint:contextcheck // its callbacks get no context to pass on
	approver, err := csrapprover.New(csrapprover.Options{
		Environment: t.inTargets(csrapprover.Name),
		Source:      t.Client,
		Settings: func(target clustercache.Status) (csrapprover.Settings, bool) {
			return csrapprover.SettingsOf(t.Settings.Controllers(target).CSRApprover)
		},
		Follow:  t.followControllers,
		Metrics: t.Metrics.Certificates,
	})
	if err != nil {
		return controller{}, err //nolint:wrapcheck // New says which controller
	}
	return controller{approver.Start, []heartbeat.Loop{
		{Name: csrapprover.Name, StuckSince: approver.StuckSince},
	}}, nil
}
