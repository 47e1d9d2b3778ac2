package health

import (
	"cmp"
	"fmt"
	"iter"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
)

// Pod is the part of a pod that PodsRolledOut and Explain need. It is immutable.
type Pod struct {
	Name   string
	Labels Labels
	// Relevant is the result of relevantPod.
	Relevant bool
	// Terminating is true for a pod that is being deleted and has not ended.
	Terminating bool
	// Created is when the pod was created, in seconds since 1970.
	Created int64
	// Problem says why the pod is not ready.
	Problem Problem
}

// PodOf returns the Pod of a live pod. It shares only strings with it.
func PodOf(pod *unstructured.Unstructured) Pod {
	return Pod{
		Name: pod.GetName(), Labels: LabelsOf(pod.GetLabels()), Relevant: relevantPod(pod), Terminating: isEnding(pod),
		Created: pod.GetCreationTimestamp().Unix(), Problem: content(pod.Object).podProblem(),
	}
}

// PodsRolledOut reports whether the pods of a namespace agree that a Deployment is rolled out: the relevant pods that
// its selector matches are as many as wanted, neither more nor fewer (H-11). The result says what it is waiting for
// otherwise. For a progress result that does not count pods they do not matter, and none is read.
//
// The caller may not know all pods: those without the label of the watch are missing, such as the old pods of a
// Deployment that was just adopted. Pods and Deployments are watched separately, so the pods may also be slightly
// outdated. The Deployment's own count of terminating pods covers both cases.
func PodsRolledOut(progress ProgressResult, pods iter.Seq[*Pod]) (done bool, message string) {
	if !progress.CountPods {
		return !progress.Progressing, progress.Message
	}
	var have, ending int64
	for pod := range pods {
		if !pod.Relevant && !pod.Terminating || !progress.Selector.Matches(&pod.Labels) {
			continue
		}
		if pod.Relevant {
			have++
		}
		if pod.Terminating {
			ending++
		}
	}
	switch {
	case have > progress.Replicas:
		return false, fmt.Sprintf("old pods remain: there are %d pods instead of %d", have, progress.Replicas)
	case have < progress.Replicas:
		return false, fmt.Sprintf("%d of %d pods", have, progress.Replicas)
	case progress.Ending > ending:
		return false, fmt.Sprintf("old pods remain: %d more terminating", progress.Ending-ending)
	default:
		return true, ""
	}
}

// Explain returns the problem of a pod that best explains why a workload is unhealthy or still rolling out: the worst
// one; of several, one of a pod with the newest template, and then the first by pod name, so that the result is stable.
// The message names the pod. Problems that are less severe than least are ignored: a healthy roll-out consists of pods
// that are not ready yet, and each would be named in turn.
//
// The zero Problem means that no pod explains it. A nil selector selects no pods.
func Explain(selector labels.Selector, pods iter.Seq[*Pod], least Severity) Problem {
	if selector == nil {
		return Problem{}
	}
	newest := &Pod{}
	var candidates []*Pod
	for pod := range pods {
		if !selector.Matches(&pod.Labels) {
			continue
		}
		if cmp.Or(cmp.Compare(pod.Created, newest.Created), cmp.Compare(pod.Name, newest.Name)) > 0 {
			newest = pod
		}
		if pod.Problem.Severity >= max(least, Waiting) {
			candidates = append(candidates, pod)
		}
	}
	var best *Pod
	for _, pod := range candidates {
		if best == nil || pod.explainsMore(best, newest.template()) {
			best = pod
		}
	}
	if best == nil {
		return Problem{}
	}
	return Problem{Severity: best.Problem.Severity, Message: fmt.Sprintf("pod %s: %s", best.Name, best.Problem.Message)}
}

// explainsMore reports whether a pod's problem is preferred to that of another pod.
func (p *Pod) explainsMore(other *Pod, template string) bool {
	first := func(a, b bool) int { // true goes first
		switch {
		case a == b:
			return 0
		case a:
			return -1
		default:
			return 1
		}
	}
	return cmp.Or(
		cmp.Compare(other.Problem.Severity, p.Problem.Severity),
		first(p.Relevant, other.Relevant),
		first(p.template() == template, other.template() == template),
		cmp.Compare(p.Name, other.Name),
	) < 0
}

// template identifies the template that a pod was made from.
func (p *Pod) template() string {
	if hash, ok := p.Labels.Lookup("pod-template-hash"); ok {
		return hash
	}
	return p.Labels.Get("controller-revision-hash")
}

// isEnding reports whether a pod counts as terminating, as Kubernetes' controllers count it.
func isEnding(pod *unstructured.Unstructured) bool {
	switch corev1.PodPhase(content(pod.Object).text("status", "phase")) {
	case corev1.PodSucceeded, corev1.PodFailed:
		return false
	}
	return pod.GetDeletionTimestamp() != nil
}

// lostReasons are parts of the reason in the status of pods that the kubelet or the node lifecycle gave up.
var lostReasons = []string{"Evicted", "NodeAffinity", "NodeLost", "Preempting"}

// relevantPod reports whether a live pod counts for the roll-out of its Deployment (H-21). A terminating pod does:
// it may still hold what its successor needs. A pod that has ended, that its node has lost or rejected, or that is
// being evicted does not, because it can stay for long without any roll-out in progress.
func relevantPod(pod *unstructured.Unstructured) bool {
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
