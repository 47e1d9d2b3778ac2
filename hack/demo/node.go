package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// notReady is a taint of nodes that have just joined, critical a label of what has to run on them first.
	notReady = "node.gardener.cloud/critical-components-not-ready"
	critical = "node.gardener.cloud/critical-component"
	// joins is the label of the node that joins.
	joins = "demo.example.org/joins"
)

// nodeJoins has a node join alpha. It keeps workloads away until the pod of a critical DaemonSet is ready there.
func (w *world) nodeJoins(ctx context.Context) error {
	network := networkOfNode()
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "node-1", Labels: map[string]string{joins: "true"}},
		Spec:       corev1.NodeSpec{Taints: []corev1.Taint{{Key: notReady, Effect: corev1.TaintEffectNoSchedule}}},
	}
	for _, object := range []client.Object{network, node} {
		if err := w.alpha.Client.Create(ctx, object); err != nil {
			return fmt.Errorf("creating %s in alpha: %w", object.GetName(), err)
		}
	}
	w.printf("node %s joined alpha, with the taint %s", node.Name, notReady)
	note, err := w.eventAbout(ctx, node)
	if err != nil {
		return err
	}
	w.printf("its event: %s", note)

	follower, err := follow(ctx, w.alpha, node)
	if err != nil {
		return err
	}
	defer follower.Stop()
	if node, err = live(ctx, w.alpha, node); err != nil {
		return err
	}
	if !slices.ContainsFunc(node.Spec.Taints, func(taint corev1.Taint) bool { return taint.Key == notReady }) {
		return errors.New("the node has lost its taint, and its network is not there")
	}
	pod, err := w.bind(ctx, network, node)
	if err != nil {
		return err
	}
	bound := time.Now()
	seen, err := follower.Until(ctx, func(u *unstructured.Unstructured) bool { return u != nil && !hasTaint(u) })
	if err != nil {
		return err
	}
	if pod, err = live(ctx, w.alpha, pod); err != nil {
		return err
	}
	if !slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	}) {
		return errors.New("the node has lost its taint, and its network is not ready")
	}
	w.measured(seen.Sub(bound), "its network pod was started and is ready, so the taint is gone")
	return nil
}

// networkOfNode is a DaemonSet that the node needs which joins. Its pod is not scheduled before the demo does it.
func networkOfNode() *appsv1.DaemonSet {
	labels := map[string]string{"app": "network", critical: "true"}
	return &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: metav1.NamespaceSystem, Name: "network", Labels: map[string]string{critical: "true"},
		},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "network"}},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					SchedulerName: "show", NodeSelector: map[string]string{joins: "true"},
					Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
					Containers:  []corev1.Container{{Name: "network", Image: "network"}},
				},
			},
		},
	}
}

// eventAbout returns what an event in alpha says that a node waits for.
func (w *world) eventAbout(ctx context.Context, node *corev1.Node) (note string, err error) {
	found := func(ctx context.Context) (bool, error) {
		list := &eventsv1.EventList{}
		if err := w.alpha.Client.List(ctx, list, client.InNamespace(metav1.NamespaceDefault)); err != nil {
			return false, fmt.Errorf("reading events of alpha: %w", err)
		}
		for _, event := range list.Items {
			if event.Regarding.UID == node.UID && event.Reason == "UnscheduledNodeCriticalDaemonSets" {
				note = event.Note
			}
		}
		return note != "", nil
	}
	if err := wait.PollUntilContextTimeout(ctx, 10*time.Millisecond, time.Minute, true, found); err != nil {
		return "", fmt.Errorf("waiting for an event about node %s: %w", node.Name, err)
	}
	return note, nil
}

// bind schedules the pod of a DaemonSet to a node.
func (w *world) bind(ctx context.Context, d *appsv1.DaemonSet, node *corev1.Node) (*corev1.Pod, error) {
	pods := &corev1.PodList{}
	made := func(ctx context.Context) (bool, error) {
		err := w.alpha.Client.List(ctx, pods, client.InNamespace(d.Namespace),
			client.MatchingLabels(d.Spec.Selector.MatchLabels))
		return len(pods.Items) == 1, err //nolint:wrapcheck // it is below
	}
	if err := wait.PollUntilContextTimeout(ctx, 10*time.Millisecond, time.Minute, true, made); err != nil {
		return nil, fmt.Errorf("waiting for the pod of DaemonSet %s: %w", d.Name, err)
	}
	pod := &pods.Items[0]
	to := &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: node.Name}}
	if err := w.alpha.Client.SubResource("binding").Create(ctx, pod, to); err != nil {
		return nil, fmt.Errorf("scheduling pod %s: %w", pod.Name, err)
	}
	return pod, nil
}

// hasTaint reports whether a node keeps workloads away because something critical is not ready.
func hasTaint(u *unstructured.Unstructured) bool {
	taints, _, _ := unstructured.NestedSlice(u.Object, "spec", "taints")
	return slices.ContainsFunc(taints, func(item any) bool {
		taint, _ := item.(map[string]any)
		return taint["key"] == notReady
	})
}
