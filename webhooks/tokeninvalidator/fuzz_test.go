package tokeninvalidator

import (
	"testing"

	"github.com/trellis-hub/trellis/hack/testbed/reviews"
)

func FuzzWebhook(f *testing.F) {
	reviews.Target{Settings: reviews.Webhooks(f, "tokenInvalidator: {enabled: true}")}.Fuzz(f, Webhook(),
		`{apiVersion: v1, kind: Secret, metadata: {labels: {token-invalidator.resources.gardener.cloud/consider: ""}},
			data: {a: eA==}}`,
		`{apiVersion: v1, kind: Secret, metadata: {}, data: {token: AAAA}}`)
}
