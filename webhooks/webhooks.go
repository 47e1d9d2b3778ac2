package webhooks

import (
	"github.com/trellis-hub/trellis/webhooks/admission"
	"github.com/trellis-hub/trellis/webhooks/deletionprotection"
	"github.com/trellis-hub/trellis/webhooks/endpointslices"
	"github.com/trellis-hub/trellis/webhooks/extensionvalidation"
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

// All returns all webhooks: those that change objects, and then those that refuse them, each in the order in which a
// configuration has their entries. The lister reads the collections that are to be deleted.
func All(lister deletionprotection.Lister) (all []admission.Webhook) {
	for _, webhook := range mutating {
		all = append(all, webhook())
	}
	return append(all, deletionprotection.Webhook(lister), extensionvalidation.Webhook())
}
