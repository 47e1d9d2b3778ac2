package webhooks

import (
	"slices"

	"github.com/trellis-hub/trellis/webhooks/admission"
	"github.com/trellis-hub/trellis/webhooks/endpointslices"
	"github.com/trellis-hub/trellis/webhooks/highavailability"
	"github.com/trellis-hub/trellis/webhooks/pods"
	"github.com/trellis-hub/trellis/webhooks/tokeninvalidator"
	"github.com/trellis-hub/trellis/webhooks/verticalpodautoscalers"
)

// mutating are the webhooks that change objects. API servers call those of one object in this order.
var mutating = []func() admission.Webhook{
	pods.TokenMount,
	highavailability.Webhook,
	pods.SchedulerName,
	pods.SeccompProfile,
	pods.ServiceHost,
	pods.LoadBalancing,
	pods.SystemComponents,
	pods.TopologySpread,
	verticalpodautoscalers.InPlaceUpdates,
	endpointslices.Hints,
	tokeninvalidator.Webhook,
}

// validating are the webhooks that refuse objects.
var validating = []func() admission.Webhook{}

// All returns all webhooks, in the order in which a configuration has their entries.
func All() (all []admission.Webhook) {
	for _, webhook := range slices.Concat(mutating, validating) {
		all = append(all, webhook())
	}
	return all
}
