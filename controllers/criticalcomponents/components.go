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

	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/untrusted"
)

const (
	// criticalLabel, exactly "true" on DaemonSets, their pod templates and pods, marks what a Node cannot do without.
	criticalLabel = "node.gardener.cloud/critical-component"
	// driverPrefix begins annotations of pods whose values are CSI drivers that have to be registered on the Node.
	driverPrefix = "node.gardener.cloud/wait-for-csi-node-"
	// namespace is where critical components are.
	namespace = metav1.NamespaceSystem

	// pageSize is how many objects are read at a time, and most is how many critical DaemonSets, or pods of a Node, are
	// looked at. Kubelets run 110 pods by default.
	pageSize, most = 100, 500
)

// errTooMany says that not everything could be looked at.
var errTooMany = errors.New("there are too many")

// look returns what the Node still waits for; nil if that is nothing. It fails if it cannot see everything.
func look(ctx context.Context, c client.Reader, node *corev1.Node) (*nodeEvent, error) {
	daemonSets, err := daemonSetsOf(ctx, c, node)
	if err != nil {
		return nil, fmt.Errorf("listing critical DaemonSets: %w", err)
	}
	pods, err := podsOf(ctx, c, node)
	if err != nil {
		return nil, fmt.Errorf("listing critical pods: %w", err)
	}
	if names := unscheduled(daemonSets, pods); len(names) > 0 {
		return waitingFor(reasonUnscheduled, "Critical DaemonSets without a pod on the node", names), nil
	}
	if names := unready(pods); len(names) > 0 {
		return waitingFor(reasonUnready, "Critical pods that are not ready", names), nil
	}
	required := requiredDrivers(pods)
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

func waitingFor(reason, what string, names []string) *nodeEvent {
	return &nodeEvent{warning: true, reason: reason, note: untrusted.Text(what+": "+strings.Join(names, ", "), maxNote)}
}

// pages reads critical objects page by page. read returns how many there were in a page, and where the next one begins.
func pages(ctx context.Context,
	read func(ctx context.Context, options []client.ListOption) (n int, next string, err error)) error {
	page := func(next string, seen int) (string, int, error) {
		ctx, done := clustercache.HoldAnswers(ctx) // what is kept of a page is small
		defer done()
		n, next, err := read(ctx, []client.ListOption{
			client.InNamespace(namespace), client.MatchingLabels{criticalLabel: "true"},
			client.Limit(pageSize), client.Continue(next),
		})
		if err == nil && n == 0 && next != "" {
			err = errors.New("a page is empty and not the last one")
		}
		return next, seen + n, err
	}
	for next, seen := "", 0; ; {
		var err error
		switch next, seen, err = page(next, seen); {
		case err != nil:
			return err
		case seen > most, seen == most && next != "":
			return fmt.Errorf("%w: %d in %s are looked at", errTooMany, most, namespace)
		case next == "":
			return nil
		}
	}
}

// daemonSet is what is needed of one that belongs onto a Node.
type daemonSet struct {
	name string
	uid  types.UID
}

// daemonSetsOf returns the critical DaemonSets that belong onto a Node.
func daemonSetsOf(ctx context.Context, c client.Reader, node *corev1.Node) (found []daemonSet, err error) {
	err = pages(ctx, func(ctx context.Context, options []client.ListOption) (int, string, error) {
		list := &appsv1.DaemonSetList{}
		if err := c.List(ctx, list, options...); err != nil {
			return 0, "", err //nolint:wrapcheck // look says what was listed
		}
		for i := range list.Items {
			d := &list.Items[i]
			if d.Spec.Template.Labels[criticalLabel] == "true" && shouldRun(d, node) {
				found = append(found, daemonSet{d.Name, d.UID})
			}
		}
		return len(list.Items), list.Continue, nil
	})
	return found, err
}

// pod is what is needed of one.
type pod struct {
	name    string
	ready   bool
	owner   types.UID // the DaemonSet that made it; empty if none did
	drivers []string  // that it needs
}

// podsOf returns the critical pods on a Node, without those that will never be ready again: their place is taken by
// other ones, or by none.
func podsOf(ctx context.Context, c client.Reader, node *corev1.Node) (found []pod, err error) {
	err = pages(ctx, func(ctx context.Context, options []client.ListOption) (int, string, error) {
		list := &corev1.PodList{}
		err := c.List(ctx, list, append(options, client.MatchingFields{"spec.nodeName": node.Name})...)
		if err != nil {
			return 0, "", err //nolint:wrapcheck // look says what was listed
		}
		for i := range list.Items {
			if p := &list.Items[i]; !isOver(p) {
				found = append(found, podOf(p))
			}
		}
		return len(list.Items), list.Continue, nil
	})
	return found, err
}

func isOver(p *corev1.Pod) bool {
	return p.DeletionTimestamp != nil || p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

func podOf(p *corev1.Pod) pod {
	found := pod{name: p.Name}
	if owner := metav1.GetControllerOfNoCopy(p); owner != nil && owner.Kind == "DaemonSet" &&
		owner.APIVersion == appsv1.SchemeGroupVersion.String() {
		found.owner = owner.UID
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			found.ready = c.Status == corev1.ConditionTrue
		}
	}
	for key, driver := range p.Annotations {
		if strings.HasPrefix(key, driverPrefix) {
			found.drivers = append(found.drivers, driver)
		}
	}
	return found
}

// unscheduled returns the names of DaemonSets that have none of the pods.
func unscheduled(daemonSets []daemonSet, pods []pod) (names []string) {
	for _, d := range daemonSets {
		if !slices.ContainsFunc(pods, func(p pod) bool { return p.owner == d.uid }) {
			names = append(names, d.name)
		}
	}
	return names
}

// unready returns the names of pods that are not ready.
func unready(pods []pod) (names []string) {
	for _, p := range pods {
		if !p.ready {
			names = append(names, p.name)
		}
	}
	return names
}

// requiredDrivers are the CSI drivers that pods need.
func requiredDrivers(pods []pod) map[string]struct{} {
	drivers := map[string]struct{}{}
	for _, p := range pods {
		for _, driver := range p.drivers {
			drivers[driver] = struct{}{}
		}
	}
	return drivers
}
