package criticalcomponents

import (
	"slices"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingcorev1 "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
)

// shouldRun reports whether the DaemonSet controller would create a pod on a Node, as it is at present. A DaemonSet
// that does not tolerate one of its taints should not, that of critical components included.
func shouldRun(d *appsv1.DaemonSet, node *corev1.Node) bool {
	pod := &corev1.Pod{Spec: d.Spec.Template.Spec}
	if pod.Spec.NodeName != "" && pod.Spec.NodeName != node.Name {
		return false
	}
	// An affinity that cannot be read matches no Node; so it does for the DaemonSet controller.
	if fits, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(node); err != nil || !fits {
		return false
	}
	_, untolerated := schedulingcorev1.FindMatchingUntoleratedTaint(
		logr.Discard(), node.Spec.Taints, daemonTolerations(&pod.Spec), keepsAway, false)
	return !untolerated
}

// keepsAway reports whether a taint keeps pods that do not tolerate it from a Node.
func keepsAway(taint *corev1.Taint) bool {
	return taint.Effect == corev1.TaintEffectNoSchedule || taint.Effect == corev1.TaintEffectNoExecute
}

// daemonTolerations are those of a pod with those that the DaemonSet controller adds.
func daemonTolerations(pod *corev1.PodSpec) []corev1.Toleration {
	add := func(all []corev1.Toleration, effect corev1.TaintEffect, keys ...string) []corev1.Toleration {
		for _, key := range keys {
			all = append(all, corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: effect})
		}
		return all
	}
	all := add(slices.Clone(pod.Tolerations), corev1.TaintEffectNoExecute,
		corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable)
	all = add(all, corev1.TaintEffectNoSchedule, corev1.TaintNodeDiskPressure, corev1.TaintNodeMemoryPressure,
		corev1.TaintNodePIDPressure, corev1.TaintNodeUnschedulable)
	if pod.HostNetwork {
		all = add(all, corev1.TaintEffectNoSchedule, corev1.TaintNodeNetworkUnavailable)
	}
	return all
}
