package endpointslices

import (
	"context"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/webhooks/admission"
)

// ConsiderLabel has the hints of an EndpointSlice set, if its value is "true".
const ConsiderLabel = "endpoint-slice-hints.resources.gardener.cloud/consider"

// Hints keeps traffic to endpoints of the caller's zone.
func Hints() admission.Webhook {
	return admission.Webhook{
		Name: "endpoint-slice-hints",
		Path: "endpoint-slice-hints",
		Settings: func(w *hubv1alpha1.TargetWebhooks) *hubv1alpha1.Webhook {
			if w.EndpointSliceHints == nil {
				return nil
			}
			return &w.EndpointSliceHints.Webhook
		},
		Registration: admission.One(func(w *hubv1alpha1.TargetWebhooks) admission.Entry {
			return admission.Entry{
				Rules: []admissionregistrationv1.RuleWithOperations{admission.Rule("discovery.k8s.io", "v1", "endpointslices",
					admissionregistrationv1.Create, admissionregistrationv1.Update)},
				MatchPolicy:       admissionregistrationv1.Equivalent,
				NamespaceSelector: admission.Selector(admission.Namespaces(w)),
				ObjectSelector:    admission.Selector(admission.Is(ConsiderLabel, "true")),
			}
		}),
		Handler: admission.Mutate(admission.Quietly(
			func(_ context.Context, _ *admission.Request, slice *discoveryv1.EndpointSlice) error {
				SetHints(slice)
				return nil
			})),
	}
}

// SetHints has each endpoint with a zone serve that zone. Those without one keep the hints that they have.
func SetHints(slice *discoveryv1.EndpointSlice) {
	for i := range slice.Endpoints {
		endpoint := &slice.Endpoints[i]
		if endpoint.Zone != nil && *endpoint.Zone != "" {
			endpoint.Hints = &discoveryv1.EndpointHints{ForZones: []discoveryv1.ForZone{{Name: *endpoint.Zone}}}
		}
	}
}
