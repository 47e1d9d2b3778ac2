package health

import (
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// jobUnhealthy knows failed Jobs only: one that is not finished is healthy.
func jobUnhealthy(job content) string {
	return job.optional(string(batchv1.JobFailed), statusFalse)
}

// podUnhealthy looks at the phase only: a running pod is healthy, ready or not.
func podUnhealthy(pod content) string {
	switch phase := pod.text("status", "phase"); corev1.PodPhase(phase) {
	case corev1.PodRunning, corev1.PodSucceeded:
		return ""
	case "":
		return "the pod has no phase yet"
	default:
		return fmt.Sprintf("the pod is in phase %s", phase)
	}
}

func serviceUnhealthy(service content) string {
	if service.text("spec", "type") != string(corev1.ServiceTypeLoadBalancer) {
		return ""
	}
	if ingress, _ := service.field("status", "loadBalancer", "ingress").([]any); len(ingress) == 0 {
		return "the load balancer has no ingress yet"
	}
	return ""
}

func crdUnhealthy(crd content) string {
	if problem := crd.required(string(apiextensionsv1.NamesAccepted), statusTrue); problem != "" {
		return problem
	}
	if problem := crd.required(string(apiextensionsv1.Established), statusTrue); problem != "" {
		return problem
	}
	return crd.optional(string(apiextensionsv1.Terminating), statusFalse)
}
