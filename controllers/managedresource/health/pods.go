package health

import (
	"fmt"
	"iter"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
)

// Pod is what PodsRolledOut needs to know of a pod.
type Pod struct {
	// Labels are the pod's labels.
	Labels map[string]string
	// Relevant is the answer of RelevantPod.
	Relevant bool
}

// PodOf returns what PodsRolledOut needs to know of a live pod. The result shares nothing with the pod.
func PodOf(pod *unstructured.Unstructured) Pod {
	return Pod{Labels: pod.GetLabels(), Relevant: RelevantPod(pod)}
}

// PodsRolledOut tells whether the pods of a namespace agree that a Deployment is rolled out: the relevant pods that its
// selector matches are as many as wanted, neither more nor fewer (spec 3.3). The result says what it is waiting for
// otherwise. For a progress result without a selector the pods do not matter, and none is looked at.
func PodsRolledOut(progress ProgressResult, pods iter.Seq[Pod]) (done bool, message string) {
	if progress.Selector == nil {
		return !progress.Progressing, progress.Message
	}
	var have int64
	for pod := range pods {
		if pod.Relevant && progress.Selector.Matches(labels.Set(pod.Labels)) {
			have++
		}
	}
	switch {
	case have > progress.Replicas:
		return false, fmt.Sprintf("old pods remain: there are %d pods instead of %d", have, progress.Replicas)
	case have < progress.Replicas:
		return false, fmt.Sprintf("%d of %d pods", have, progress.Replicas)
	default:
		return true, ""
	}
}

// lostReasons are parts of the reason in the status of pods that the kubelet or the node lifecycle gave up.
var lostReasons = []string{"Evicted", "NodeAffinity", "NodeLost", "Preempting"}

// RelevantPod reports whether a live pod counts for the roll-out of its Deployment (spec 3.3). A terminating pod does: it
// may still hold what its successor needs. A pod that has ended, that its node has lost or rejected, or that is being
// evicted does not, because it can stay for long without any roll-out going on.
func RelevantPod(pod *unstructured.Unstructured) bool {
	c := content(pod.Object)
	switch corev1.PodPhase(c.text("status", "phase")) {
	case corev1.PodSucceeded, corev1.PodFailed:
		return false
	}
	reason := c.text("status", "reason")
	if strings.HasPrefix(reason, "OutOf") {
		return false
	}
	for _, lost := range lostReasons {
		if strings.Contains(reason, lost) {
			return false
		}
	}
	if ready := c.condition(string(corev1.PodReady)); ready["status"] == statusFalse && ready["reason"] == "PodCompleted" {
		return false
	}
	return c.condition(string(corev1.DisruptionTarget))["status"] != statusTrue
}
