package controllers

import (
	"context"

	"k8s.io/utils/ptr"

	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/controllers/networkpolicy"
	"github.com/trellis-hub/trellis/leader/heartbeat"
)

func newNetworkPolicy(_ context.Context, t *term) (controller, error) {
	//nolint:contextcheck // its callbacks get no context to pass on
	policies, err := networkpolicy.New(networkpolicy.Options{
		Environment: t.inTargets(networkpolicy.Name),
		Settings: func(target clustercache.Status) (networkpolicy.Settings, bool) {
			own := t.Settings.Controllers(target).NetworkPolicy
			if own == nil {
				return networkpolicy.Settings{}, false
			}
			settings := networkpolicy.Settings{
				ConcurrentSyncs:    int(*own.ConcurrentSyncs),
				NamespaceSelectors: own.NamespaceSelectors,
				OnlyWithClientPods: ptr.Deref(own.OnlyWithClientPods, false),
			}
			if ingress := own.IngressControllerSelector; ingress != nil {
				settings.IngressController = &networkpolicy.IngressController{
					Namespace: ingress.Namespace, PodSelector: ingress.PodSelector,
				}
			}
			return settings, true
		},
		Follow:  t.Settings.FollowControllers,
		Metrics: t.Metrics.Policies,
	})
	if err != nil {
		return controller{}, err //nolint:wrapcheck // New says which controller
	}
	return controller{policies.Start, []heartbeat.Loop{
		{Name: networkpolicy.Name, StuckSince: policies.StuckSince},
	}}, nil
}
