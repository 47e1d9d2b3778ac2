package pods

import (
	"context"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/webhooks/admission"
)

const topologySpreadSkipLabel = "topology-spread-constraints.resources.gardener.cloud/skip"

// TopologySpread has the topology spread of pods count only pods of the same ReplicaSet, so that those of the one
// before do not distort it during a rollout.
func TopologySpread() admission.Webhook {
	return admission.Webhook{
		Name: "pod-topology-spread-constraints",
		Path: "pod-topology-spread-constraints",
		Settings: func(w *hubv1alpha1.TargetWebhooks) *hubv1alpha1.Webhook {
			return w.PodTopologySpreadConstraints
		},
		Registration: admission.One(func(w *hubv1alpha1.TargetWebhooks) admission.Entry {
			return entry(admission.Namespaces(w),
				slices.Concat(admission.Managed(w), admission.NotServing(), admission.Without(topologySpreadSkipLabel)),
				condition("replica-set", `has(object.metadata.labels) && "pod-template-hash" in object.metadata.labels`),
				condition("constraints", `has(object.spec.topologySpreadConstraints) && `+
					`object.spec.topologySpreadConstraints.size() > 0`))
		}),
		Combines: true,
		Handler: admission.Mutate(admission.Quietly(func(_ context.Context, _ *admission.Request, pod *corev1.Pod) error {
			spread(pod)
			return nil
		})),
	}
}

func spread(pod *corev1.Pod) {
	const key = appsv1.DefaultDeploymentUniqueLabelKey
	hash, is := pod.Labels[key]
	if !is {
		return
	}
	for i := range pod.Spec.TopologySpreadConstraints {
		constraint := &pod.Spec.TopologySpreadConstraints[i]
		if selects(constraint.LabelSelector, key) {
			continue
		}
		if constraint.LabelSelector == nil {
			constraint.LabelSelector = &metav1.LabelSelector{}
		}
		if constraint.LabelSelector.MatchLabels == nil {
			constraint.LabelSelector.MatchLabels = map[string]string{}
		}
		constraint.LabelSelector.MatchLabels[key] = hash
		// The API forbids a key in both places.
		constraint.MatchLabelKeys = slices.DeleteFunc(constraint.MatchLabelKeys, func(k string) bool { return k == key })
	}
}

// selects reports whether a selector names values of a label.
func selects(selector *metav1.LabelSelector, key string) bool {
	if selector == nil {
		return false
	}
	if _, is := selector.MatchLabels[key]; is {
		return true
	}
	return slices.ContainsFunc(selector.MatchExpressions, func(r metav1.LabelSelectorRequirement) bool {
		return r.Key == key && r.Operator == metav1.LabelSelectorOpIn
	})
}
