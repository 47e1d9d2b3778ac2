package pods_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/trellis-hub/trellis/hack/testbed/reviews"
	"github.com/trellis-hub/trellis/webhooks/pods"
)

func FuzzTokenMount(f *testing.F) {
	mounting(f, "").Fuzz(f, pods.TokenMount(), pod(``, `serviceAccountName: "off", containers: [{name: a}]`),
		pod(`annotations: {projected-token-mount.resources.gardener.cloud/expiration-seconds: "5"}`,
			`serviceAccountName: "off"`))
}

func FuzzSchedulerName(f *testing.F) {
	reviews.Target{Settings: reviews.Webhooks(f, "podSchedulerName: {enabled: true, schedulerName: a}")}.
		Fuzz(f, pods.SchedulerName(), pod(``, `schedulerName: default-scheduler`))
}

func FuzzSeccompProfile(f *testing.F) {
	reviews.Target{Settings: reviews.Webhooks(f, "seccompProfile: {enabled: true}")}.
		Fuzz(f, pods.SeccompProfile(), pod(``, `securityContext: {seccompProfile: {type: ""}}`))
}

func FuzzServiceHost(f *testing.F) {
	reviews.Target{Settings: reviews.Webhooks(f, "kubernetesServiceHost: {enabled: true, host: a, port: 1}")}.
		Fuzz(f, pods.ServiceHost(), pod(``, `containers: [{name: a, env: [{name: KUBERNETES_SERVICE_PORT}]}, {name: b}]`))
}

func FuzzLoadBalancing(f *testing.F) {
	balancing(f, "istio-ingress", "a,b").Fuzz(f, pods.LoadBalancing(), pod(``, plainSecret), pod(``, projectedSecret),
		pod(``, plainSecret+`, hostAliases: [{ip: 10.0.0.1, hostnames: [a, b]}]`))
}

func FuzzSystemComponents(f *testing.F) {
	placing(f, node("n", "true", corev1.Taint{Key: "k", Effect: corev1.TaintEffectNoSchedule})).Fuzz(f,
		pods.SystemComponents(),
		component(`tolerations: [{key: t1, operator: Exists}, {key: t1, operator: Exists}], nodeSelector: {a: x}`))
}

func FuzzTopologySpread(f *testing.F) {
	reviews.Target{Settings: reviews.Webhooks(f, "podTopologySpreadConstraints: {enabled: true}")}.
		Fuzz(f, pods.TopologySpread(), pod(`labels: {pod-template-hash: a}`,
			`topologySpreadConstraints: [{topologyKey: a, matchLabelKeys: [b, pod-template-hash]}, {labelSelector: {}}]`))
}
