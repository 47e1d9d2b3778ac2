package endpointslices_test

import (
	"testing"

	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admission/v1"

	"github.com/trellis-hub/trellis/hack/testbed/reviews"
	"github.com/trellis-hub/trellis/webhooks/endpointslices"
)

func slice(labels, endpoints string) string {
	return "{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: s, labels: {" + labels + "}}, " +
		"addressType: IPv4, ports: [], endpoints: [" + endpoints + "]}"
}

// EPS-5 is part of EPS-4.
func TestEPS_Hints(t *testing.T) {
	const consider = `endpoint-slice-hints.resources.gardener.cloud/consider: "true"`
	for name, test := range map[string]struct{ labels, before, want string }{
		"EPS-1 not considered": {"", `{zone: a}`, `{zone: a}`},
		"EPS-1 another value":  {`endpoint-slice-hints.resources.gardener.cloud/consider: "1"`, `{zone: a}`, `{zone: a}`},
		"EPS-2 no zone": {consider, `{addresses: [1.1.1.1]}, {zone: ""}, {zone: a}`,
			`{addresses: [1.1.1.1]}, {zone: ""}, {zone: a, hints: {forZones: [{name: a}]}}`},
		"EPS-2 no zone, but hints": {consider, `{hints: {forZones: [{name: b}]}}, {zone: ""}`,
			`{hints: {forZones: [{name: b}]}}, {zone: ""}`},
		"EPS-3 three zones": {consider, `{zone: a}, {zone: b}, {zone: c}`, `{zone: a, hints: {forZones: [{name: a}]}},
			{zone: b, hints: {forZones: [{name: b}]}}, {zone: c, hints: {forZones: [{name: c}]}}`},
		"EPS-4 EPS-5 hints for others": {consider, `{zone: a, hints: {forZones: [{name: b}, {name: c}]}}`,
			`{zone: a, hints: {forZones: [{name: a}]}}`},
	} {
		for _, operation := range []admissionv1.Operation{admissionv1.Create, admissionv1.Update} {
			t.Run(name+" "+string(operation), func(t *testing.T) {
				g := NewWithT(t)
				c := reviews.Target{Settings: reviews.Webhooks(t, "endpointSliceHints: {enabled: true}"), Operation: operation}
				answer := c.Send(t, endpointslices.Hints(), slice(test.labels, test.before))
				g.Expect(answer.Err).NotTo(HaveOccurred())
				g.Expect(answer.Object).To(MatchYAML(slice(test.labels, test.want)))
			})
		}
	}
	t.Run("EPS-6 another namespace", func(t *testing.T) {
		c := reviews.Target{Settings: reviews.Webhooks(t, "endpointSliceHints: {enabled: true}"), Namespace: "default"}
		NewWithT(t).Expect(c.Send(t, endpointslices.Hints(), slice(consider, `{zone: a}`)).Called).To(BeFalse())
	})
}
