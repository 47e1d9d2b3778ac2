package health

import (
	"encoding/json"
	"slices"
	"strings"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// finalizer keeps a pod there that is being deleted.
const finalizer = "test.trellis/held"

// pods lists the pods of an image, terminating ones included. Pods that came earlier come first.
func (p place) pods(image string) []corev1.Pod {
	p.t.Helper()
	list := &corev1.PodList{}
	p.Expect(p.target.Client.List(p.ctx, list, client.InNamespace(p.ns))).To(Succeed())
	out := slices.DeleteFunc(list.Items, func(pod corev1.Pod) bool { return pod.Spec.Containers[0].Image != image })
	slices.SortFunc(out, func(a, b corev1.Pod) int { return strings.Compare(a.ResourceVersion, b.ResourceVersion) })
	return out
}

// awaitPods waits until there are as many pods of an image, and returns them.
func (p place) awaitPods(image string, n int) (pods []corev1.Pod) {
	p.t.Helper()
	p.Eventually(func() []corev1.Pod {
		pods = p.pods(image)
		return pods
	}).Should(HaveLen(n))
	return pods
}

// say reports the status of a pod as its kubelet does.
func (p place) say(pod corev1.Pod, status corev1.PodStatus) {
	p.t.Helper()
	raw, err := json.Marshal(map[string]any{"status": status})
	p.Expect(err).NotTo(HaveOccurred())
	p.Expect(p.target.Client.Status().Patch(p.ctx, pod.DeepCopy(), client.RawPatch(types.MergePatchType, raw), client.FieldOwner("kubelet"))).To(Succeed())
}

// start lets a pod run and be ready.
func (p place) start(pods ...corev1.Pod) {
	p.t.Helper()
	for _, pod := range pods {
		p.say(pod, running(pod, true, corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}}))
	}
}

// running is the status of a pod whose container is in a state.
func running(pod corev1.Pod, isReady bool, state corev1.ContainerState) corev1.PodStatus {
	status := corev1.ConditionFalse
	if isReady {
		status = corev1.ConditionTrue
	}
	return corev1.PodStatus{
		Phase: corev1.PodRunning,
		Conditions: []corev1.PodCondition{
			{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()},
			{Type: corev1.PodReady, Status: status, LastTransitionTime: metav1.Now()},
			{Type: corev1.ContainersReady, Status: status, LastTransitionTime: metav1.Now()},
		},
		ContainerStatuses: []corev1.ContainerStatus{{Name: pod.Spec.Containers[0].Name, Image: pod.Spec.Containers[0].Image, Ready: isReady, State: state}},
	}
}

// waiting is the status of a pod whose container does not start.
func waiting(pod corev1.Pod, reason, message string) corev1.PodStatus {
	status := running(pod, false, corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}})
	status.Phase = corev1.PodPending
	return status
}

// hold keeps pods there when they are deleted; release lets them go. Only pods on a node stay as they are: of others that are
// being deleted the controller manager says, sooner or later, that they have failed.
func (p place) hold(pods ...corev1.Pod) { p.finalize(`["`+finalizer+`"]`, pods) }

func (p place) release(pods ...corev1.Pod) { p.finalize(`null`, pods) }

func (p place) finalize(finalizers string, pods []corev1.Pod) {
	p.t.Helper()
	for _, pod := range pods {
		patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":`+finalizers+`}}`))
		p.Expect(p.target.Client.Patch(p.ctx, pod.DeepCopy(), patch, client.FieldOwner("another-client"))).To(Succeed())
	}
}

func podIsReady(pod corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// podsOf lists the pods of an image with a label app.
func (p place) podsOf(app, image string) []corev1.Pod {
	p.t.Helper()
	return slices.DeleteFunc(p.pods(image), func(pod corev1.Pod) bool { return pod.Labels["app"] != app })
}
