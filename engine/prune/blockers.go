package prune

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-hub/trellis/engine/inventory"
	"github.com/trellis-hub/trellis/untrusted"
)

// Bounds of the report of what an object waits for.
const (
	// explainedObjects is how many objects are explained in one run.
	explainedObjects = 20
	// namedInstances is how many instances of a definition are named.
	namedInstances = 3
)

// namespaceConditions say what a namespace that is being deleted waits for, the cause before its consequences.
var namespaceConditions = []corev1.NamespaceConditionType{
	corev1.NamespaceDeletionDiscoveryFailure, corev1.NamespaceDeletionGVParsingFailure,
	corev1.NamespaceDeletionContentFailure,
	corev1.NamespaceFinalizersRemaining, corev1.NamespaceContentRemaining,
}

// NamespaceWaits says what keeps a namespace from being deleted, from its own conditions: an API group that does not
// respond, finalizers, objects. It is empty if the namespace is not being deleted, or if that is not known.
func NamespaceWaits(ctx context.Context, reader client.Reader, name string) string {
	ns := &unstructured.Unstructured{}
	ns.SetAPIVersion("v1")
	ns.SetKind("Namespace")
	if err := reader.Get(ctx, client.ObjectKey{Name: name}, ns); err != nil || ns.GetDeletionTimestamp() == nil {
		return ""
	}
	var texts []string
	for _, conditionType := range namespaceConditions {
		if c := conditionOf(ns, string(conditionType)); c["status"] == "True" {
			texts = append(texts, untrusted.Message(stringIn(c, "message")))
		}
	}
	return untrusted.Text(strings.Join(texts, "; "), maxQuote)
}

// explain adds to the reasons of objects that are still terminating what blocks them, as far as the target reports it.
// It is only information for users, so errors are ignored.
func (r *run) explain(ctx context.Context) {
	if r.Client == nil {
		return
	}
	explanations := map[schema.GroupKind]func(context.Context, inventory.Key) string{
		{Kind: "Service"}: r.lastWarnings,
		{Kind: "Namespace"}: func(ctx context.Context, k inventory.Key) string {
			return NamespaceWaits(
				ctx, r.Client, k.Name)
		},
		definitionKind: r.definitionWaits,
	}
	var pending []int
	for i := range r.outcomes {
		out := &r.outcomes[i]
		if out.Result == Pending && out.lingers && explanations[out.Key.GroupKind()] != nil &&
			len(pending) < explainedObjects {
			pending = append(pending, i)
		}
	}
	r.parallel(pending, func(out *Outcome) {
		if text := explanations[out.Key.GroupKind()](ctx, out.Key); text != "" {
			out.Reason += "; " + text
		}
	})
}

var definitionKind = schema.GroupKind{Group: definitions.Group, Kind: "CustomResourceDefinition"}

// definitionWaits says what keeps a definition from being deleted: its instances or, if none are left, why the API
// server could not delete them. It can take minutes until the API server tries again.
func (r *run) definitionWaits(ctx context.Context, crd inventory.Key) string {
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(definitionKind.WithVersion(definitions.Version))
	if err := r.Client.Get(ctx, client.ObjectKey{Name: crd.Name}, live); err != nil {
		return ""
	}
	if left := r.instancesLeft(ctx, live); left != "" {
		return left
	}
	c := conditionOf(live, string(apiextensionsv1.Terminating))
	if c["status"] != "True" || c["reason"] == "InstanceDeletionInProgress" {
		return ""
	}
	return untrusted.Text(stringIn(c, "message"), maxQuote)
}

// instancesLeft names instances that a definition waits for, and how many there are.
func (r *run) instancesLeft(ctx context.Context, live *unstructured.Unstructured) string {
	resource := schema.GroupVersionResource{Version: servedVersion(live)}
	resource.Group, _, _ = unstructured.NestedString(live.Object, "spec", "group")
	resource.Resource, _, _ = unstructured.NestedString(live.Object, "spec", "names", "plural")
	if resource.Version == "" {
		return ""
	}
	list, err := r.Metadata.Resource(resource).List(ctx, metav1.ListOptions{Limit: namedInstances})
	if err != nil || len(list.Items) == 0 {
		return ""
	}
	count := int64(len(list.Items))
	if list.RemainingItemCount != nil {
		count += *list.RemainingItemCount
	}
	var names []string
	for i := range list.Items {
		item := &list.Items[i]
		name := untrusted.Name(strings.TrimPrefix(item.Namespace+"/"+item.Name, "/"))
		if len(item.Finalizers) > 0 {
			finalizers := strings.Join(slices.Sorted(slices.Values(item.Finalizers)), " ")
			name += fmt.Sprintf(" (finalizers %s)", untrusted.Message(finalizers))
		}
		names = append(names, name)
	}
	if rest := count - int64(len(names)); rest > 0 {
		names = append(names, fmt.Sprintf("%d more", rest))
	}
	return untrusted.Text(fmt.Sprintf("%d instances are left: %s", count, strings.Join(names, ", ")), maxQuote)
}

// servedVersion is a version of a definition in which its instances can be listed; empty if there is none.
func servedVersion(crd *unstructured.Unstructured) string {
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	for _, v := range versions {
		if version, _ := v.(map[string]any); version["served"] == true {
			return stringIn(version, "name")
		}
	}
	return ""
}
