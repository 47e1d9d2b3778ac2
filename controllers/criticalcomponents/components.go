package criticalcomponents

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-hub/trellis/untrusted"
)

const (
	// criticalLabel, exactly "true" on DaemonSets, their pod templates and pods, marks what a Node cannot do without.
	criticalLabel = "node.gardener.cloud/critical-component"
	// driverPrefix begins annotations of pods whose values are CSI drivers that have to be registered on the Node.
	driverPrefix = "node.gardener.cloud/wait-for-csi-node-"
	// namespace is where critical components are.
	namespace = metav1.NamespaceSystem

	// maxDaemonSets and maxPods are how many critical ones are looked at, of the target and of a Node. Kubelets run 110
	// pods by default.
	maxDaemonSets, maxPods = 500, 500
)

// errTooMany says that not everything could be looked at.
var errTooMany = errors.New("there are too many")

var critical = client.MatchingLabels{criticalLabel: "true"}

// look returns what the Node still waits for; nil if that is nothing. It fails if it cannot see everything.
func look(ctx context.Context, c client.Reader, node *corev1.Node) (*news, error) {
	daemonSets := &appsv1.DaemonSetList{}
	err := c.List(ctx, daemonSets, client.InNamespace(namespace), critical, client.Limit(maxDaemonSets))
	if err != nil {
		return nil, fmt.Errorf("listing critical DaemonSets: %w", err)
	}
	if daemonSets.Continue != "" || len(daemonSets.Items) > maxDaemonSets {
		return nil, fmt.Errorf("%w: %d critical DaemonSets in %s are looked at", errTooMany, maxDaemonSets, namespace)
	}
	pods := &corev1.PodList{}
	err = c.List(ctx, pods, client.InNamespace(namespace), critical, client.Limit(maxPods),
		client.MatchingFields{"spec.nodeName": node.Name})
	if err != nil {
		return nil, fmt.Errorf("listing critical pods: %w", err)
	}
	if pods.Continue != "" || len(pods.Items) > maxPods {
		return nil, fmt.Errorf("%w: %d critical pods in %s are looked at", errTooMany, maxPods, namespace)
	}
	working := slices.DeleteFunc(pods.Items, isOver)

	if names := unscheduled(daemonSets.Items, working, node); len(names) > 0 {
		return waitingFor(reasonUnscheduled, "Critical DaemonSets without a pod on the node", names), nil
	}
	if names := unready(working); len(names) > 0 {
		return waitingFor(reasonUnready, "Critical pods that are not ready", names), nil
	}
	required := requiredDrivers(working)
	if len(required) == 0 {
		return nil, nil
	}
	csiNode := &storagev1.CSINode{}
	err = c.Get(ctx, types.NamespacedName{Name: node.Name}, csiNode)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading CSINode %s: %w", untrusted.Name(node.Name), err)
	}
	for _, driver := range csiNode.Spec.Drivers {
		delete(required, driver.Name)
	}
	if len(required) > 0 {
		names := slices.Sorted(maps.Keys(required))
		return waitingFor(reasonDrivers, "Required CSI drivers that are not registered", names), nil
	}
	return nil, nil
}

func waitingFor(reason, what string, names []string) *news {
	return &news{warning: true, reason: reason, note: untrusted.Text(what+": "+strings.Join(names, ", "), maxNote)}
}

// isOver tells that a pod will never be ready again. Its place is taken by another one, or by none.
func isOver(pod corev1.Pod) bool {
	return pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// unscheduled returns the names of DaemonSets that belong onto a Node and have none of its pods.
func unscheduled(daemonSets []appsv1.DaemonSet, pods []corev1.Pod, node *corev1.Node) (names []string) {
	scheduled := map[types.UID]bool{}
	for i := range pods {
		owner := metav1.GetControllerOfNoCopy(&pods[i])
		if owner != nil && owner.Kind == "DaemonSet" && owner.APIVersion == appsv1.SchemeGroupVersion.String() {
			scheduled[owner.UID] = true
		}
	}
	for i := range daemonSets {
		d := &daemonSets[i]
		if d.Spec.Template.Labels[criticalLabel] == "true" && !scheduled[d.UID] && shouldRun(d, node) {
			names = append(names, d.Name)
		}
	}
	return names
}

// unready returns the names of pods that are not ready.
func unready(pods []corev1.Pod) (names []string) {
	for i := range pods {
		ready := func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue }
		if !slices.ContainsFunc(pods[i].Status.Conditions, ready) {
			names = append(names, pods[i].Name)
		}
	}
	return names
}

// requiredDrivers are the CSI drivers that annotations of pods name.
func requiredDrivers(pods []corev1.Pod) map[string]struct{} {
	drivers := map[string]struct{}{}
	for i := range pods {
		for key, driver := range pods[i].Annotations {
			if strings.HasPrefix(key, driverPrefix) {
				drivers[driver] = struct{}{}
			}
		}
	}
	return drivers
}
