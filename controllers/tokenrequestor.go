package controllers

import (
	"context"

	configv1alpha1 "github.com/trellis-hub/trellis/apis/config/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/controllers/tokenrequestor"
	"github.com/trellis-hub/trellis/leader/heartbeat"
)

func newTokenRequestor(_ context.Context, t *term) (controller, error) {
	//nolint:contextcheck // its callbacks get no context to pass on
	requestor, err := tokenrequestor.New(tokenrequestor.Options{
		Environment: t.inTargets(tokenrequestor.Name),
		Source:      t.Client,
		Metadata:    t.SecretMetadata,
		Namespaces:  configv1alpha1.SecretNamespaces(t.Config.Classes),
		Settings: func(target clustercache.Status) (tokenrequestor.Settings, bool) {
			return tokenrequestor.SettingsOf(t.Settings.Controllers(target).TokenRequestor)
		},
		Follow:  t.followControllers,
		Metrics: t.Metrics.Tokens,
	})
	if err != nil {
		return controller{}, err //nolint:wrapcheck // New says which controller
	}
	return controller{requestor.Start, []heartbeat.Loop{
		{Name: tokenrequestor.Name, StuckSince: requestor.StuckSince},
	}}, nil
}
