package pods

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/webhooks/admission"
)

const (
	systemComponentsSkipLabel     = "system-components-config.resources.gardener.cloud/skip"
	systemComponentsConsiderLabel = "system-components-config.resources.gardener.cloud/consider"

	// toBeDeletedTaint is that of nodes that the cluster autoscaler is about to remove.
	toBeDeletedTaint = "ToBeDeletedByClusterAutoscaler"
	// systemTaint is part of the keys of all taints of Kubernetes itself: those of nodes that are not well, and of
	// control planes.
	systemTaint = "kubernetes.io/"
)

// SystemComponents has system components run on the nodes that are for them, and tolerate their taints.
func SystemComponents() admission.Webhook {
	return admission.Webhook{
		Name: "system-components-config",
		Path: "system-components-config",
		Settings: func(w *hubv1alpha1.TargetWebhooks) *hubv1alpha1.Webhook {
			if w.SystemComponentsConfig == nil {
				return nil
			}
			return &w.SystemComponentsConfig.Webhook
		},
		Registration: admission.One(func(w *hubv1alpha1.TargetWebhooks) admission.Entry {
			namespaces := admission.Namespaces(w)
			if admission.IsRuntime(w) {
				namespaces = append(namespaces, admission.Is(systemComponentsConsiderLabel, "true")...)
			}
			return entry(namespaces, slices.Concat(admission.Managed(w), admission.Without(systemComponentsSkipLabel)),
				condition("no-daemon-set", `!has(object.metadata.ownerReferences) || !object.metadata.ownerReferences.exists(o, `+
					`o.apiVersion == "apps/v1" && o.kind == "DaemonSet" && has(o.controller) && o.controller)`))
		}),
		Combines: true,
		Handler:  admission.Mutate(place),
	}
}

func place(ctx context.Context, request *admission.Request, pod *corev1.Pod) (response admission.Response, err error) {
	own := request.Settings.SystemComponentsConfig
	if own == nil || ofDaemonSet(pod) {
		return response, nil
	}
	nodes, stale, err := request.State.Nodes(ctx)
	if err != nil {
		return response, fmt.Errorf("listing nodes: %w", err)
	}
	if len(own.PodNodeSelector) > 0 && pod.Spec.NodeSelector == nil {
		pod.Spec.NodeSelector = map[string]string{}
	}
	maps.Copy(pod.Spec.NodeSelector, own.PodNodeSelector)
	if stale {
		response.Warnings = []string{"nodes cannot be listed at present: new taints of nodes may not be tolerated"}
	}
	var tolerations set
	tolerations.add(pod.Spec.Tolerations...)
	tolerations.add(own.PodTolerations...)
	tolerations.add(tolerationsOf(nodes, labels.SelectorFromSet(own.NodeSelector))...)
	pod.Spec.Tolerations = tolerations.list
	return response, nil
}

// ofDaemonSet reports whether a DaemonSet controls a pod. Those run on all nodes, and the DaemonSet says which.
func ofDaemonSet(pod *corev1.Pod) bool {
	owner := metav1.GetControllerOfNoCopy(pod)
	return owner != nil && owner.APIVersion == appsv1.SchemeGroupVersion.String() && owner.Kind == "DaemonSet"
}

// tolerationsOf are those of the taints of nodes that a selector matches, in the order of their names.
func tolerationsOf(nodes []corev1.Node, selector labels.Selector) []corev1.Toleration {
	var matching []*corev1.Node
	for i := range nodes {
		if selector.Matches(labels.Set(nodes[i].Labels)) {
			matching = append(matching, &nodes[i])
		}
	}
	slices.SortFunc(matching, func(a, b *corev1.Node) int { return cmp.Compare(a.Name, b.Name) })
	var all set
	for _, node := range matching {
		for _, taint := range node.Spec.Taints {
			if strings.Contains(taint.Key, systemTaint) || taint.Key == toBeDeletedTaint {
				continue
			}
			toleration := corev1.Toleration{Key: taint.Key, Operator: corev1.TolerationOpEqual, Value: taint.Value,
				Effect: taint.Effect}
			if taint.Value == "" {
				toleration.Operator = corev1.TolerationOpExists
			}
			all.add(toleration)
		}
	}
	return all.list
}

// set are tolerations, each once, in the order in which they were added.
type set struct {
	list []corev1.Toleration
	has  map[tolerationKey]bool
}

// tolerationKey is a toleration without a pointer.
type tolerationKey struct {
	corev1.Toleration
	forever bool
	seconds int64
}

func (s *set) add(tolerations ...corev1.Toleration) {
	if s.has == nil {
		s.has = make(map[tolerationKey]bool, len(tolerations))
	}
	for _, toleration := range tolerations {
		key := tolerationKey{Toleration: toleration, forever: true}
		if toleration.TolerationSeconds != nil {
			key.forever, key.seconds = false, *toleration.TolerationSeconds
		}
		key.TolerationSeconds = nil
		if !s.has[key] {
			s.has[key] = true
			s.list = append(s.list, toleration)
		}
	}
}
