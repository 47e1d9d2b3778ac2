package highavailability_test

import (
	"testing"

	"github.com/trellis-hub/trellis/webhooks/highavailability"
)

const workloadWithAll = `
	affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {
		nodeSelectorTerms: [{matchExpressions: [{key: a}]}]}}},
	topologySpreadConstraints: [{topologyKey: kubernetes.io/hostname}, {topologyKey: x, labelSelector: {}}],
	tolerations: [{key: node.kubernetes.io/not-ready}]`

func FuzzDeployment(f *testing.F) {
	target(f, "zone", "a,b", 2).Fuzz(f, highavailability.Webhook(), deployment("server", "replicas: 1,", workloadWithAll))
}

func FuzzStatefulSet(f *testing.F) {
	target(f, "node", "a,b", 2).Fuzz(f, highavailability.Webhook(),
		object("StatefulSet", typed("controller"), "replicas: 5,", workloadWithAll))
}

func FuzzHorizontalPodAutoscaler(f *testing.F) {
	target(f, "zone", "a,b", 2).Fuzz(f, highavailability.Webhook(),
		"{apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, "+
			"metadata: {"+typed("server")+", annotations: {"+prefix+"replicas: \"3\"}}, spec: {minReplicas: 1, maxReplicas: 1}}")
}
