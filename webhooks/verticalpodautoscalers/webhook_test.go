package verticalpodautoscalers_test

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admission/v1"

	"github.com/trellis-hub/trellis/hack/testbed/reviews"
	"github.com/trellis-hub/trellis/webhooks/verticalpodautoscalers"
)

func autoscaler(labels, spec string) string {
	return fmt.Sprintf("{apiVersion: autoscaling.k8s.io/v1, kind: VerticalPodAutoscaler, metadata: {name: v, labels: "+
		"{%s}}, "+
		"spec: {targetRef: {kind: Deployment}, %s}}", labels, spec)
}

func TestVPA_InPlaceUpdates(t *testing.T) {
	const mutated = `vpa-in-place-updates.resources.gardener.cloud/mutated: "true"`
	const skip = `vpa-in-place-updates.resources.gardener.cloud/skip: ""`
	for name, test := range map[string]struct{ labels, before, wantLabels, want string }{
		"VPA-1 Auto": {"", `updatePolicy: {updateMode: Auto}`, mutated,
			`updatePolicy: {updateMode: InPlaceOrRecreate}`},
		"VPA-2 Recreate": {"a: b", `updatePolicy: {updateMode: Recreate}`, "a: b, " + mutated,
			`updatePolicy: {updateMode: InPlaceOrRecreate}`},
		"VPA-3 no mode":   {"", `updatePolicy: {}`, mutated, `updatePolicy: {updateMode: InPlaceOrRecreate}`},
		"VPA-3 no policy": {"", ``, mutated, `updatePolicy: {updateMode: InPlaceOrRecreate}`},
		"VPA-4 Initial":   {"", `updatePolicy: {updateMode: Initial}`, "", `updatePolicy: {updateMode: Initial}`},
		"VPA-5 Off":       {"", `updatePolicy: {updateMode: "Off"}`, "", `updatePolicy: {updateMode: "Off"}`},
		"VPA-6 skipped": {skip, `updatePolicy: {updateMode: Recreate}`, skip,
			`updatePolicy: {updateMode: Recreate}`},
		"VPA-7 InPlaceOrRecreate": {"", `updatePolicy: {updateMode: InPlaceOrRecreate}`, "",
			`updatePolicy: {updateMode: InPlaceOrRecreate}`},
		"VPA-9 the rest stays": {"", `updatePolicy: {updateMode: Auto, minReplicas: 3},
			resourcePolicy: {containerPolicies: [{x: z}]}`, mutated,
			`updatePolicy: {updateMode: InPlaceOrRecreate, minReplicas: 3}, resourcePolicy: {containerPolicies: [{x: z}]}`},
	} {
		for _, operation := range []admissionv1.Operation{admissionv1.Create, admissionv1.Update} { // VPA-8
			t.Run(name+" "+string(operation), func(t *testing.T) {
				g := NewWithT(t)
				c := reviews.Target{Settings: reviews.Webhooks(t, "vpaInPlaceUpdates: {enabled: true}"), Operation: operation}
				answer := c.Send(t, verticalpodautoscalers.InPlaceUpdates(), autoscaler(test.labels, test.before))
				g.Expect(answer.Err).NotTo(HaveOccurred())
				g.Expect(answer.Object).To(MatchYAML(autoscaler(test.wantLabels, test.want)))
			})
		}
	}
}
