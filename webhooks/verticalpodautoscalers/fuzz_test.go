package verticalpodautoscalers_test

import (
	"testing"

	"github.com/trellis-hub/trellis/hack/testbed/reviews"
	"github.com/trellis-hub/trellis/webhooks/verticalpodautoscalers"
)

func FuzzInPlaceUpdates(f *testing.F) {
	reviews.Target{Settings: reviews.Webhooks(f, "vpaInPlaceUpdates: {enabled: true}")}.
		Fuzz(f, verticalpodautoscalers.InPlaceUpdates(), autoscaler("a: b", `updatePolicy: {updateMode: Auto}`),
			autoscaler("", ""))
}
