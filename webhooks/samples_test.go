package webhooks_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/trellis-hub/trellis/hack/testbed/reviews"
	"github.com/trellis-hub/trellis/webhooks"
	"github.com/trellis-hub/trellis/webhooks/admission"
)

const settingsOfSamples = `{
registration: {scope: Runtime}, projectedTokenMount: {enabled: true},
highAvailabilityConfig: {enabled: true, defaultNotReadyTolerationSeconds: 60, defaultUnreachableTolerationSeconds: 60},
podSchedulerName: {enabled: true, schedulerName: packing}, seccompProfile: {enabled: true},
kubernetesServiceHost: {enabled: true, host: api.example}, podKubeAPIServerLoadBalancing: {enabled: true},
systemComponentsConfig: {enabled: true, podNodeSelector: {a: b}, podTolerations: [{key: t, operator: Exists}]},
podTopologySpreadConstraints: {enabled: true}, vpaInPlaceUpdates: {enabled: true}, endpointSliceHints: {enabled: true},
tokenInvalidator: {enabled: true}}`

// containers are as large as those of most pods.
func containers(n int) string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf(`{name: c%d, image: "registry.example/a/b:v1", command: [/a, --b=c, --d=e],
			args: [--f], env: [
			{name: A, value: b}, {name: POD, valueFrom: {fieldRef: {fieldPath: metadata.name}}}], ports: [{containerPort: 80}],
			resources: {requests: {cpu: 10m, memory: 20Mi}, limits: {memory: 1Gi}}, volumeMounts: [{name: v, mountPath: /v}]}`,
			i))
	}
	return strings.Join(all, ", ")
}

func podOf(n int) string {
	return `{apiVersion: v1, kind: Pod, metadata: {generateName: a-, labels: {app: a, pod-template-hash: abc},
		ownerReferences: [
		{apiVersion: apps/v1, kind: ReplicaSet, name: a, uid: b, controller: true}]}, spec: {serviceAccountName: a,
		schedulerName: default-scheduler, securityContext: {runAsNonRoot: true}, initContainers: [{name: i}],
		topologySpreadConstraints: [{topologyKey: zone, maxSkew: 1, whenUnsatisfiable: DoNotSchedule, matchLabelKeys: [x]}],
		tolerations: [{key: x, operator: Exists}], volumes: [{name: v, secret: {secretName: generic-token-kubeconfig}}],
		hostAliases: [{ip: 1.1.1.1, hostnames: [a]}], containers: [` + containers(n) + `]}}`
}

func workloadOf(n int) string {
	return `{apiVersion: apps/v1, kind: Deployment, metadata: {name: a, labels: {
		high-availability-config.resources.gardener.cloud/type: server}}, spec: {replicas: 1,
			selector: {matchLabels: {app: a}},
		template: {metadata: {labels: {app: a}},
			spec: {affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {
		nodeSelectorTerms: [{matchExpressions: [{key: x, operator: Exists}]}]}}}, topologySpreadConstraints: [{topologyKey: x,
		maxSkew: 1, whenUnsatisfiable: DoNotSchedule, labelSelector: {}}], tolerations: [{key: x, operator: Exists}],
		containers: [` + containers(n) + `]}}}}`
}

// sample is an object with n parts that a webhook changes.
func sample(w admission.Webhook, n int) string {
	switch w.Name {
	case "high-availability-config":
		return workloadOf(n)
	case "vpa-in-place-updates":
		return `{apiVersion: autoscaling.k8s.io/v1, kind: VerticalPodAutoscaler, metadata: {name: a, labels: {a: b}}, spec: {
			updatePolicy: {updateMode: Auto}, resourcePolicy: {containerPolicies: [` + strings.Repeat("{containerName: a}, ",
			n) + `]}}}`
	case "endpoint-slice-hints":
		return `{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: a, labels: {
			endpoint-slice-hints.resources.gardener.cloud/consider: "true"}}, addressType: IPv4, endpoints: [` +
			strings.Repeat("{addresses: [1.1.1.1], conditions: {ready: true}, zone: a}, ", n) + `]}`
	case "token-invalidator":
		return `{apiVersion: v1, kind: Secret, metadata: {name: a,
			labels: {resources.gardener.cloud/purpose: token-invalidator,
			token-invalidator.resources.gardener.cloud/consider: ""}, annotations: {a: "` + strings.Repeat("a",
			n) + `"}}, data: {token: eA==}}`
	default:
		return podOf(n)
	}
}

// ofSamples is a target whose webhooks change all samples.
func ofSamples(t testing.TB) reviews.Target {
	t.Helper()
	of := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "shoot--a", Name: name} }
	return reviews.Target{
		Settings:  reviews.Webhooks(t, settingsOfSamples),
		Namespace: "shoot--a",
		Labels: map[string]string{
			"gardener.cloud/role": "shoot", "high-availability-config.resources.gardener.cloud/consider": "true",
			"system-components-config.resources.gardener.cloud/consider": "true",
		},
		State: &reviews.State{
			Accounts: []corev1.ServiceAccount{{ObjectMeta: of("a"), AutomountServiceAccountToken: ptr.To(false)}},
			ConfigMaps: []corev1.ConfigMap{{ObjectMeta: of("istio-internal-load-balancing"), Data: map[string]string{
				"hosts": "a,b", "istio-namespace": "shoot--a",
			}}},
			Services: []corev1.Service{{ObjectMeta: of("istio-ingressgateway-internal"),
				Spec: corev1.ServiceSpec{ClusterIPs: []string{"10.0.0.1"}}}},
			Spaces: []metav1.PartialObjectMetadata{{ObjectMeta: metav1.ObjectMeta{
				Name: "shoot--a", Annotations: map[string]string{
					"high-availability-config.resources.gardener.cloud/failure-tolerance-type": "zone",
					"high-availability-config.resources.gardener.cloud/zones":                  "a,b",
				},
			}}},
			NodeList: []corev1.Node{
				{Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoSchedule}}}}, {},
			},
		},
	}
}

// mutating are the webhooks of a target that change objects, and one of all that can be combined.
func mutating(t testing.TB, c reviews.Target) (all []admission.Webhook) {
	t.Helper()
	names := map[string]bool{}
	path := "runtime.mount-projected-service-account-token.seccomp-profile.system-components-config." +
		"pod-topology-spread-constraints"
	combined, is := admission.CombinedAt(path, webhooks.All(nil))
	NewWithT(t).Expect(is).To(BeTrue())
	for _, w := range append(webhooks.All(nil), combined) {
		if !w.Validating && w.Enabled(&c.Settings) && !names[w.Name] {
			names[w.Name] = true
			all = append(all, w)
		}
	}
	return all
}

func eachMutating(t *testing.T, do func(*testing.T, admission.Webhook)) {
	t.Helper()
	for _, w := range mutating(t, ofSamples(t)) {
		t.Run(w.Name, func(t *testing.T) { do(t, w) })
	}
}

func TestCMN10_UnknownFieldsStay(t *testing.T) {
	eachMutating(t, func(t *testing.T, w admission.Webhook) { ofSamples(t).KeepsUnknownFields(t, w, sample(w, 2)) })
}

func TestCMN9_WhatIsRightIsNotPatched(t *testing.T) {
	eachMutating(t, func(t *testing.T, w admission.Webhook) {
		answer := ofSamples(t).Send(t, w, sample(w, 2)) // which sends what becomes of it once more
		NewWithT(t).Expect(answer.Patch).NotTo(BeEmpty())
	})
}

// HUB-26: nor does it leave anything behind.
func TestCMN21_TryingOutIsTheSame(t *testing.T) {
	eachMutating(t, func(t *testing.T, w admission.Webhook) {
		g := NewWithT(t)
		c := ofSamples(t)
		untouched := ofSamples(t).State
		request := c.Request(t, sample(w, 2))
		want, err := w.Handler.Handle(t.Context(), request)
		g.Expect(err).NotTo(HaveOccurred())
		request.DryRun = ptr.To(true)
		sent := request.DeepCopy()
		got, err := w.Handler.Handle(t.Context(), request)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(got).To(Equal(want))
		c.State.Calls = nil
		g.Expect(c.State).To(Equal(untouched), "what was read is as it was")
		g.Expect(request.AdmissionRequest).To(Equal(sent))
	})
}

// TestObjectsOfAnySize shows that what a handler does is bounded by what it is sent.
func TestObjectsOfAnySize(t *testing.T) {
	eachMutating(t, func(t *testing.T, w admission.Webhook) {
		g := NewWithT(t)
		c := ofSamples(t)
		request := c.Request(t, sample(w, 1))
		request.Object.Raw = many(t, sample(w, 1), 10_000)
		answer, err := w.Handler.Handle(t.Context(), request)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(answer.Denied).To(BeNil())
		g.Expect(answer.Patch).NotTo(BeEmpty())
		g.Expect(len(answer.Patch)).To(BeNumerically("<", 7<<20))
	})
}

// many is a sample in JSON with one of its parts n times.
func many(t testing.TB, object string, n int) []byte {
	t.Helper()
	g := NewWithT(t)
	var tree map[string]any
	g.Expect(yaml.Unmarshal([]byte(object), &tree)).To(Succeed())
	multiply(tree, n)
	raw, err := json.Marshal(tree)
	g.Expect(err).NotTo(HaveOccurred())
	return raw
}

func multiply(tree map[string]any, n int) {
	for key, value := range tree {
		switch value := value.(type) {
		case map[string]any:
			multiply(value, n)
		case []any:
			if slices.Contains([]string{"containers", "endpoints", "containerPolicies"}, key) {
				tree[key] = slices.Repeat(value, n)
			}
		}
	}
}

func BenchmarkHandlers(b *testing.B) {
	c := ofSamples(b)
	for _, w := range mutating(b, c) {
		b.Run(w.Name, func(b *testing.B) {
			request := c.Request(b, sample(w, 2))
			b.ReportAllocs()
			b.SetBytes(int64(len(request.Object.Raw)))
			for b.Loop() {
				if answer, err := w.Handler.Handle(b.Context(), request); err != nil || len(answer.Patch) == 0 {
					b.Fatal(answer, err)
				}
			}
		})
	}
}
