package controllers

import (
	"context"

	"k8s.io/utils/ptr"

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
			own := t.Settings.Controllers(target).TokenRequestor
			if own == nil {
				return tokenrequestor.Settings{}, false
			}
			s := tokenrequestor.Settings{
				ConcurrentSyncs: int(*own.ConcurrentSyncs),
				Audiences:       own.TokenAudiences(),
				TargetNamespace: ptr.Deref(own.TargetNamespace, ""),
				Policy: tokenrequestor.Policy{
					Allowed: own.AllowedServiceAccounts, Denied: own.DeniedServiceAccounts,
				},
			}
			if *own.Class != "" {
				s.Class = own.Class
			}
			return s, true
		},
		Follow:  t.Settings.FollowControllers,
		Metrics: t.Metrics.Tokens,
	})
	if err != nil {
		return controller{}, err //nolint:wrapcheck // New says which controller
	}
	return controller{requestor.Start, []heartbeat.Loop{
		{Name: tokenrequestor.Name, StuckSince: requestor.StuckSince},
	}}, nil
}
