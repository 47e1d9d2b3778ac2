package highavailability_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/trellis-hub/trellis/hack/testbed/reviews"
	"github.com/trellis-hub/trellis/webhooks/highavailability"
)

const prefix = "high-availability-config.resources.gardener.cloud/"

// unset is a tolerance that a namespace does not have.
const unset = "-"

// target has a namespace ns that asks for something, and some nodes.
func target(t testing.TB, tolerance, zones string, nodes int) reviews.Target {
	t.Helper()
	annotations := map[string]string{}
	if tolerance != unset {
		annotations[prefix+"failure-tolerance-type"] = tolerance
	}
	if zones != unset {
		annotations[prefix+"zones"] = zones
	}
	return reviews.Target{
		Settings: reviews.Webhooks(t, `registration: {scope: Runtime},
highAvailabilityConfig: {enabled: true, defaultNotReadyTolerationSeconds: 60,
	defaultUnreachableTolerationSeconds: 70}`),
		Namespace: "ns", Labels: map[string]string{"gardener.cloud/role": "shoot", prefix + "consider": "true"},
		State: &reviews.State{
			Spaces:   []metav1.PartialObjectMetadata{{ObjectMeta: metav1.ObjectMeta{Name: "ns", Annotations: annotations}}},
			NodeList: make([]corev1.Node, nodes),
		},
	}
}

// scaler is an autoscaler of an object.
func scaler(namespace, apiVersion, kind, name string, most int32) autoscalingv2.HorizontalPodAutoscaler {
	return autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "hpa"},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: apiVersion, Kind: kind, Name: name},
			MaxReplicas:    most,
		},
	}
}

// object is one of apps/v1 named w, with a template of the labels app: x.
func object(kind, metadata, spec, podSpec string) string {
	return fmt.Sprintf(`{apiVersion: apps/v1, kind: %s, metadata: {name: w, %s},
		spec: {selector: {matchLabels: {own: s}}, %s
		template: {metadata: {labels: {app: x}}, spec: {%s}}}}`, kind, metadata, spec, podSpec)
}

// deployment is one of a type and with some replicas. An empty type is none.
func deployment(kind, replicas, podSpec string) string {
	return object("Deployment", typed(kind), replicas, podSpec)
}

func typed(kind string) string {
	if kind == "" {
		return ""
	}
	return "labels: {" + prefix + "type: " + kind + "}"
}

// send sends a Deployment or StatefulSet, and returns it as a Deployment, which has all that is looked at.
func send(t testing.TB, c reviews.Target, object string) *appsv1.Deployment {
	t.Helper()
	g := NewWithT(t)
	answer := c.Send(t, highavailability.Webhook(), object)
	g.Expect(answer.Err).NotTo(HaveOccurred())
	g.Expect(answer.Denied).To(BeNil())
	d := &appsv1.Deployment{}
	g.Expect(json.Unmarshal(answer.Object, d)).To(Succeed())
	return d
}

// shortly is the topology spread of a template in a few characters: the key, d and the domains or any, and by which
// keys.
func shortly(d *appsv1.Deployment) string {
	var all []string
	for _, c := range d.Spec.Template.Spec.TopologySpreadConstraints {
		name := map[string]string{"kubernetes.io/hostname": "host", "topology.kubernetes.io/zone": "zone"}[c.TopologyKey]
		if name == "" {
			name = c.TopologyKey
		}
		said := name + " any"
		if c.WhenUnsatisfiable == corev1.DoNotSchedule {
			said = name + " d"
			if c.MinDomains != nil {
				said += fmt.Sprint(*c.MinDomains)
			}
		}
		if c.MaxSkew != 1 {
			said += fmt.Sprintf(" skew %d", c.MaxSkew)
		}
		if len(c.MatchLabelKeys) > 0 {
			said += " by " + strings.Join(c.MatchLabelKeys, "+")
		}
		all = append(all, said)
	}
	return strings.Join(all, ", ")
}
