package player

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// RollOut makes whatever is not rolled out so, once.
func RollOut(ctx context.Context, c client.Client) error {
	deployments, daemons, sets := &appsv1.DeploymentList{}, &appsv1.DaemonSetList{}, &appsv1.StatefulSetList{}
	for _, list := range []client.ObjectList{deployments, daemons, sets} {
		if err := c.List(ctx, list); err != nil {
			return fmt.Errorf("listing workloads: %w", err)
		}
	}
	for i := range deployments.Items {
		d := &deployments.Items[i]
		if d.Status.ObservedGeneration == d.Generation {
			continue
		}
		replicas := ptr.Deref(d.Spec.Replicas, 1)
		if err := runPods(ctx, c, d, replicas, d.Spec.Template); err != nil {
			return err
		}
		d.Status = appsv1.DeploymentStatus{
			ObservedGeneration: d.Generation, Replicas: replicas, UpdatedReplicas: replicas, ReadyReplicas: replicas, AvailableReplicas: replicas,
			Conditions: []appsv1.DeploymentCondition{
				{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue, Reason: "MinimumReplicasAvailable"},
				{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Reason: "NewReplicaSetAvailable"},
			},
		}
		if err := c.Status().Update(ctx, d); err != nil {
			return fmt.Errorf("rolling out Deployment %s: %w", d.Name, err)
		}
	}
	for i := range daemons.Items {
		d := &daemons.Items[i]
		if d.Status.ObservedGeneration == d.Generation {
			continue
		}
		d.Status = appsv1.DaemonSetStatus{ObservedGeneration: d.Generation} // there are no nodes
		if err := c.Status().Update(ctx, d); err != nil {
			return fmt.Errorf("rolling out DaemonSet %s: %w", d.Name, err)
		}
	}
	for i := range sets.Items {
		s := &sets.Items[i]
		if s.Status.ObservedGeneration == s.Generation {
			continue
		}
		replicas := ptr.Deref(s.Spec.Replicas, 1)
		s.Status = appsv1.StatefulSetStatus{
			ObservedGeneration: s.Generation, Replicas: replicas, UpdatedReplicas: replicas, ReadyReplicas: replicas, CurrentReplicas: replicas, AvailableReplicas: replicas,
		}
		if err := c.Status().Update(ctx, s); err != nil {
			return fmt.Errorf("rolling out StatefulSet %s: %w", s.Name, err)
		}
	}
	return nil
}

// runPods makes the pods of a workload, all running and ready.
func runPods(ctx context.Context, c client.Client, owner client.Object, replicas int32, template corev1.PodTemplateSpec) error {
	for i := range replicas {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: owner.GetNamespace(), Name: fmt.Sprintf("%s-%d", owner.GetName(), i), Labels: template.Labels, Annotations: template.Annotations,
			},
			Spec: template.Spec,
		}
		if err := c.Create(ctx, pod); apierrors.IsAlreadyExists(err) {
			continue
		} else if err != nil {
			return fmt.Errorf("creating Pod %s: %w", pod.Name, err)
		}
		pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}
		if err := c.Status().Update(ctx, pod); err != nil {
			return fmt.Errorf("running Pod %s: %w", pod.Name, err)
		}
	}
	return nil
}
