package health

import (
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// jobUnhealthy reports failed Jobs only: one that is not finished is healthy.
func jobUnhealthy(job content) Problem {
	return failed(job.optional(string(batchv1.JobFailed), statusFalse))
}

// IsDone reports whether an object is a Job that has succeeded and has a time to live after that. Its absence is then
// not a problem.
func IsDone(object *unstructured.Unstructured) bool {
	if object.GroupVersionKind().GroupKind() != (schema.GroupKind{Group: batchv1.GroupName, Kind: "Job"}) {
		return false
	}
	job := content(object.Object)
	complete := job.condition(string(batchv1.JobComplete))
	return job.field("spec", "ttlSecondsAfterFinished") != nil && complete["status"] == statusTrue
}

// podUnhealthy checks the phase only: a running pod is healthy, ready or not.
func podUnhealthy(pod content) Problem {
	phase := pod.text("status", "phase")
	switch corev1.PodPhase(phase) {
	case corev1.PodRunning, corev1.PodSucceeded:
		return Problem{}
	case "":
		return waiting("the pod has no phase yet")
	}
	cause := pod.podProblem()
	message := fmt.Sprintf("the pod is in phase %s", phase)
	if cause.Message != "" && cause.Message != notReady {
		message += ": " + cause.Message
	}
	return problem(max(cause.Severity, Unavailable), message)
}

func serviceUnhealthy(service content) Problem {
	if service.text("spec", "type") != string(corev1.ServiceTypeLoadBalancer) {
		return Problem{}
	}
	if ingress, _ := service.field("status", "loadBalancer", "ingress").([]any); len(ingress) == 0 {
		return unavailable("the load balancer has no ingress yet")
	}
	return Problem{}
}

func crdUnhealthy(crd content) Problem {
	return worst(
		crd.refused(string(apiextensionsv1.NamesAccepted)),
		unavailable(crd.required(string(apiextensionsv1.Established), statusTrue)),
		unavailable(crd.optional(string(apiextensionsv1.Terminating), statusFalse)),
	)
}

// apiServiceUnhealthy is stricter than a Gardener resource manager: while an APIService is not available, discovery is
// incomplete, and no namespace can be deleted.
func apiServiceUnhealthy(service content) Problem {
	return unavailable(service.optional("Available", statusTrue))
}

// refused is for a condition that has to be True. While it is missing, its controller has not decided yet; a status
// other than True is final.
func (c content) refused(conditionType string) Problem {
	if c.condition(conditionType) == nil {
		return unavailable(c.required(conditionType, statusTrue))
	}
	return failed(c.required(conditionType, statusTrue))
}
