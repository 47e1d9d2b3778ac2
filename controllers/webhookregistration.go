package controllers

import (
	"context"
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	configv1alpha1 "github.com/trellis-hub/trellis/apis/config/v1alpha1"
	"github.com/trellis-hub/trellis/controllers/webhookregistration"
	"github.com/trellis-hub/trellis/leader/heartbeat"
	"github.com/trellis-hub/trellis/webhooks/admission"
	"github.com/trellis-hub/trellis/webhooks/certificates"
	"github.com/trellis-hub/trellis/webhooks/routes"
)

// Webhooks are what the hub serves to targets. All fields are required.
type Webhooks struct {
	// All are those that there are, in the order in which they are called.
	All []admission.Webhook
	// Store is what calls are secured with, Client how targets reach the hub.
	Store  *certificates.Store
	Client configv1alpha1.WebhookClientConfig
	// Served returns why this replica does not serve a route; nil if it does.
	Served func(context.Context, routes.Route, *certificates.Material) error
}

func newWebhookRegistration(ctx context.Context, t *term) (controller, error) {
	// Two hubs may look after the same target, and then they have different sources.
	source := &corev1.Namespace{}
	if err := t.Cache.Get(ctx, types.NamespacedName{Name: metav1.NamespaceSystem}, source); err != nil {
		return controller{}, fmt.Errorf("finding out which cluster the source is: %w", err)
	}
	options := webhookregistration.Options{
		Environment: t.inTargets(webhookregistration.Name), Source: t.Client, ID: string(source.UID),
		Settings: t.Settings.Webhooks, Follow: t.Settings.FollowWebhooks,
		Attached: t.Attached,
	}
	options.Environment.Source = t.Cache
	if w := t.Webhooks; w != nil {
		options.Webhooks, options.Store, options.Served = w.All, w.Store, w.Served
		options.Endpoint.URL = w.Client.URL
		if s := w.Client.Service; s != nil {
			options.Endpoint.Service = &admissionregistrationv1.ServiceReference{
				Namespace: s.Namespace, Name: s.Name, Port: ptr.To(s.Port),
			}
		}
	}
	//nolint:contextcheck // its callbacks get no context to pass on
	registration, err := webhookregistration.New(options)
	if err != nil {
		return controller{}, err //nolint:wrapcheck // New says which controller
	}
	return controller{registration.Start, []heartbeat.Loop{
		{Name: webhookregistration.Name, StuckSince: registration.StuckSince},
	}}, nil
}
