package pods

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/webhooks/admission"
)

// entry is that of a webhook that is called when pods are created.
func entry(namespaces, objects []admission.Requirement, conditions ...admissionregistrationv1.MatchCondition,
) admission.Entry {
	return admission.Entry{
		Rules: []admissionregistrationv1.RuleWithOperations{admission.Rule("", "v1", "pods",
			admissionregistrationv1.Create)},
		MatchPolicy:       admissionregistrationv1.Exact,
		NamespaceSelector: admission.Selector(namespaces),
		ObjectSelector:    admission.Selector(objects, admission.NotStatic()),
		MatchConditions:   conditions,
	}
}

func condition(name, expression string) admissionregistrationv1.MatchCondition {
	return admissionregistrationv1.MatchCondition{Name: name, Expression: expression}
}

// eachContainer calls do for every container that runs, in their order.
func eachContainer(pod *corev1.Pod, do func(*corev1.Container)) {
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			do(&containers[i])
		}
	}
}

// common is what a webhook without settings of its own has in common with the others.
func common(own *hubv1alpha1.WebhookOrPolicy) *hubv1alpha1.Webhook {
	if own == nil {
		return nil
	}
	return &own.Webhook
}
