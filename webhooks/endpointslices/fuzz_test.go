package endpointslices_test

import (
	"testing"

	"github.com/trellis-hub/trellis/hack/testbed/reviews"
	"github.com/trellis-hub/trellis/webhooks/endpointslices"
)

func FuzzHints(f *testing.F) {
	reviews.Target{Settings: reviews.Webhooks(f, "endpointSliceHints: {enabled: true}")}.
		Fuzz(f, endpointslices.Hints(), slice("", `{zone: a}, {zone: b, hints: {forZones: [{name: a}, {name: b}]}}`))
}
