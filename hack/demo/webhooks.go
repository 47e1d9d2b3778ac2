package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/hack/controlplane"
	"github.com/trellis-hub/trellis/hack/testbed"
)

// hostVariable is what pods find the API server by.
const hostVariable = "KUBERNETES_SERVICE_HOST"

// hubConfig is the configuration of the hub, which serves webhooks on a port that is free.
func hubConfig() (string, error) {
	port, err := controlplane.FreePort()
	if err != nil {
		return "", fmt.Errorf("port for webhooks: %w", err)
	}
	return strings.ReplaceAll(file("config.yaml"), "WEBHOOKS_PORT", strconv.Itoa(port)), nil
}

// host is the name of a target's API server that its settings have.
func host(target *testbed.Cluster) string { return "api." + target.Name + ".example.org" }

// podsAreChanged switches webhooks on in two targets, with settings of their own, and creates a pod in each.
func (w *world) podsAreChanged(ctx context.Context) error {
	for _, target := range w.targets() {
		account := &corev1.ServiceAccount{
			ObjectMeta:                   metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "demo"},
			AutomountServiceAccountToken: ptr.To(false),
		}
		if err := target.Client.Create(ctx, account); err != nil {
			return fmt.Errorf("creating a service account in %s: %w", target.Name, err)
		}
	}
	targets := []*testbed.Cluster{w.alpha, w.beta}
	group := newChorus(w)
	for _, target := range targets {
		tc := &hubv1alpha1.TargetCluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace(target), Name: target.Name}}
		settings := fmt.Sprintf(`{"spec":{"webhooks":{"registration":{"failurePolicy":"Ignore"},`+
			`"projectedTokenMount":{"enabled":true},`+
			`"kubernetesServiceHost":{"enabled":true,"mode":"Webhook","host":%q}}}}`, host(target))
		if err := w.source.Client.Patch(ctx, tc, client.RawPatch(client.Merge.Type(), []byte(settings))); err != nil {
			return fmt.Errorf("switching on webhooks of %s: %w", target.Name, err)
		}
		group.await(ctx, testbed.TargetClusterRef(tc.Namespace, tc.Name), func(e testbed.Entry) bool {
			return e.Is(hubv1alpha1.ConditionWebhooksRegistered, "True")
		}, func(testbed.Entry) string {
			return "the API server of " + target.Name + " calls the hub about new pods"
		})
	}
	if err := group.wait(); err != nil {
		return err
	}
	for _, target := range targets {
		began := time.Now()
		pod, err := newPod(ctx, target)
		if err != nil {
			return err
		}
		took := time.Since(began)
		if got := hostOf(pod); got != host(target) {
			return fmt.Errorf("a pod of %s has the API server %q", target.Name, got)
		}
		if !hasToken(pod) {
			return fmt.Errorf("a pod of %s has no token", target.Name)
		}
		w.measured(took, "a pod in kube-system of %s was created: it has a token that expires, and the API server %s",
			target.Name, host(target))
	}
	pod, err := newPod(ctx, w.gamma)
	if err != nil {
		return err
	}
	if hostOf(pod) != "" || hasToken(pod) {
		return errors.New("a pod of gamma was changed, for which no webhook is on")
	}
	w.printf("one of gamma, for which no webhook is on, is as it was sent")
	return nil
}

// podsStartWithoutTheHub creates a pod while no hub answers to the webhooks.
func (w *world) podsStartWithoutTheHub(ctx context.Context) error {
	pod, err := newPod(ctx, w.alpha)
	if err != nil {
		return err
	}
	if got := hostOf(pod); got != "" {
		return fmt.Errorf("without a hub, a pod of alpha has the API server %q", got)
	}
	w.printf("without the hub, a pod in kube-system of alpha is created as it was sent: " +
		"its webhooks are of failure policy Ignore")
	return nil
}

// newPod creates a pod in kube-system, deletes it, and returns what the API server made of it.
func newPod(ctx context.Context, target *testbed.Cluster) (*corev1.Pod, error) {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, GenerateName: "demo-"},
		Spec: corev1.PodSpec{
			ServiceAccountName: "demo", Containers: []corev1.Container{{Name: "main", Image: "example.org/demo:1"}},
		},
	}
	if err := target.Client.Create(ctx, pod); err != nil {
		return nil, fmt.Errorf("creating a pod in %s: %w", target.Name, err)
	}
	if err := target.Client.Delete(ctx, pod.DeepCopy(), client.GracePeriodSeconds(0)); err != nil {
		return nil, fmt.Errorf("deleting a pod in %s: %w", target.Name, err)
	}
	return pod, nil
}

// hostOf is the API server that a pod is given; empty if it is given none.
func hostOf(pod *corev1.Pod) string {
	for _, v := range pod.Spec.Containers[0].Env {
		if v.Name == hostVariable {
			return v.Value
		}
	}
	return ""
}

// hasToken reports whether a pod mounts a token that expires.
func hasToken(pod *corev1.Pod) bool {
	for _, volume := range pod.Spec.Volumes {
		if volume.Projected == nil {
			continue
		}
		for _, source := range volume.Projected.Sources {
			if source.ServiceAccountToken != nil {
				return true
			}
		}
	}
	return false
}
