package controllers

import (
	"context"

	"k8s.io/utils/ptr"

	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/controllers/care"
	"github.com/trellis-hub/trellis/leader/heartbeat"
)

func newCare(_ context.Context, t *term) (controller, error) {
	//nolint:contextcheck // its callbacks get no context to pass on
	carer, err := care.New(care.Options{
		Environment: t.inTargets(care.Name),
		Source:      t.Client,
		Settings: func(target clustercache.Status) (care.Settings, bool) {
			own := t.Settings.Controllers(target).Care
			if own == nil {
				return care.Settings{}, false
			}
			return care.Settings{
				SyncPeriod: own.SyncPeriod.Duration, Remediate: ptr.Deref(own.WebhookRemediatorEnabled, false),
			}, true
		},
		Follow:  t.followControllers,
		Metrics: t.Metrics.Care,
	})
	if err != nil {
		return controller{}, err //nolint:wrapcheck // New says which controller
	}
	return controller{carer.Start, []heartbeat.Loop{
		{Name: care.Name, StuckSince: carer.StuckSince},
	}}, nil
}
