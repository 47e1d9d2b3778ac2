package ownership

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/engine/merge"
)

// Exempt reports whether foreign payload at a path stays with its owner. own are the fields of our Apply entry (nil
// without one); subresource is the one through which the owner wrote, empty for the object itself.
type Exempt func(path fieldpath.Path, own *fieldpath.Set, subresource string) bool

// ExemptFor returns the foreign payload that is never taken back from an object of the manifest's kind. A field is
// exempt only while the manifest does not set it: fields that the manifest sets are ours and are not foreign payload.
// Fields whose live value wins over the manifest's belong to their writers: replicas of an object that is scaled by an
// autoscaler (autoscaled) or preserves them, and preserved resources.
func ExemptFor(manifest *unstructured.Unstructured, autoscaled bool) Exempt {
	rules := rulesFor(manifest, autoscaled)
	return func(path fieldpath.Path, own *fieldpath.Set, subresource string) bool {
		for _, r := range rules {
			if r.matches(path, own, subresource) {
				return true
			}
		}
		return false
	}
}

// KeptFor returns the part of ExemptFor that stays although an intent may set it: fields whose live value wins, and
// fields that the manifest leaves empty.
func KeptFor(manifest *unstructured.Unstructured, autoscaled bool) Exempt {
	rules := rulesFor(manifest, autoscaled)
	return func(path fieldpath.Path, own *fieldpath.Set, subresource string) bool {
		for _, r := range rules {
			if r.matches(path, own, subresource) && (r.wins || !isSet(manifest.Object, path)) {
				return true
			}
		}
		return false
	}
}

// maxSearched bounds the length of lists that are searched for an item. Longer lists count as if they had the item.
const maxSearched = 1000

// isSet reports whether there is a value at a path. List items are found by their keys; items without keys count as set
// if the list is.
func isSet(node any, path fieldpath.Path) bool {
	for _, pe := range path {
		switch {
		case pe.FieldName != nil:
			m, _ := node.(map[string]any)
			node = m[*pe.FieldName]
		case pe.Key != nil:
			list, _ := node.([]any)
			if len(list) > maxSearched {
				return true
			}
			i := slices.IndexFunc(list, func(item any) bool { return hasKeys(item, *pe.Key) })
			if i < 0 {
				return false
			}
			node = list[i]
		}
	}
	return node != nil && node != ""
}

// hasKeys reports whether a list item has the values of a key. Key fields that it omits match any value, since they
// have defaults.
func hasKeys(item any, key value.FieldList) bool {
	m, _ := item.(map[string]any)
	for _, field := range key {
		if v, found := m[field.Name]; found && !value.Equals(value.NewValueInterface(v), field.Value) {
			return false
		}
	}
	return m != nil
}

// rule describes exempt paths. Elements are field names; "*" stands for any list item or map key.
type rule struct {
	path []string
	// deep exempts everything below the path as well.
	deep bool
	// parents, if set, exempts the path's ancestors from that depth on as well: they have no content of their own.
	parents int
	// onlyIn restricts the rule to items that we own: if we have an entry, the path's prefix of that length must be in
	// it.
	onlyIn int
	// wins is set if the live value wins over the manifest's.
	wins bool
}

func (r rule) matches(path fieldpath.Path, own *fieldpath.Set, _ string) bool {
	if len(path) < len(r.path) {
		return r.parents > 0 && len(path) >= r.parents && prefix(r.path, path)
	}
	if len(path) > len(r.path) && !r.deep {
		return false
	}
	for i, want := range r.path {
		if !elementIs(path[i], want) {
			return false
		}
	}
	return r.onlyIn == 0 || own == nil || own.Has(path[:r.onlyIn])
}

func prefix(names []string, path fieldpath.Path) bool {
	for i := range path {
		if !elementIs(path[i], names[i]) {
			return false
		}
	}
	return true
}

func elementIs(pe fieldpath.PathElement, want string) bool {
	if want == "*" {
		return true
	}
	return pe.FieldName != nil && *pe.FieldName == want
}

func exact(path string) rule   { return rule{path: strings.Split(path, ".")} }
func subtree(path string) rule { return rule{path: strings.Split(path, "."), deep: true} }
func winning(r rule) rule      { r.wins = true; return r }
func restarted(template []string) rule {
	path := append(template[:len(template):len(template)], "metadata", "annotations",
		resourcesv1alpha1.RestartedAtAnnotation)
	return rule{path: path, parents: len(path) - 2, wins: true}
}

// resources are the rules for CPU and memory of our containers.
func resources(template []string) (rules []rule) {
	container := append(template[:len(template):len(template)], "spec", "containers", "*")
	for _, kind := range []string{"requests", "limits"} {
		for _, name := range []string{"cpu", "memory"} {
			path := append(container[:len(container):len(container)], "resources", kind, name)
			rules = append(rules, rule{path: path, parents: len(container) + 1, onlyIn: len(container), wins: true})
		}
	}
	return rules
}

func rulesFor(obj *unstructured.Unstructured, autoscaled bool) []rule {
	gk, manifest := obj.GroupVersionKind().GroupKind(), obj.Object
	var rules []rule
	switch gk.Group {
	case "":
		switch gk.Kind {
		case "Namespace":
			rules = append(rules, subtree("spec.finalizers"))
		case "Node":
			rules = append(rules, subtree("spec"))
		case "PersistentVolume":
			rules = append(rules, subtree("spec.claimRef"))
		case "PersistentVolumeClaim":
			rules = append(rules, exact("spec.volumeName"))
		case "Pod":
			rules = append(rules, exact("spec.nodeName"), subtree("spec.tolerations"), subtree("spec.ephemeralContainers"))
		case "Secret":
			if t, _, _ := unstructured.NestedString(manifest, "type"); t == "kubernetes.io/service-account-token" {
				rules = append(rules, subtree("data"))
			}
		case "ServiceAccount":
			rules = append(rules, winning(subtree("secrets")), winning(subtree("imagePullSecrets")))
		case "Service":
			if t, _, _ := unstructured.NestedString(manifest, "spec", "type"); t == "LoadBalancer" || t == "NodePort" {
				rules = append(rules, exact("spec.loadBalancerIP"))
			}
			rules = append(rules,
				exact("spec.clusterIP"), subtree("spec.clusterIPs"), exact("spec.healthCheckNodePort"),
				rule{path: []string{"spec", "ports", "*", "nodePort"}, onlyIn: 3})
		}
	case "admissionregistration.k8s.io":
		rules = append(rules, exact("webhooks.*.clientConfig.caBundle"))
	case "apiregistration.k8s.io":
		if !merge.InsecureAPI(obj) {
			rules = append(rules, exact("spec.caBundle"))
		}
	case "apiextensions.k8s.io":
		rules = append(rules, exact("spec.conversion.webhook.clientConfig.caBundle"))
	case "rbac.authorization.k8s.io":
		if gk.Kind == "ClusterRole" && manifest["aggregationRule"] != nil {
			rules = append(rules, subtree("rules"))
		}
	}
	if merge.KeepsReplicas(obj, autoscaled) {
		rules = append(rules, winning(exact("spec.replicas")))
	}
	if template := merge.TemplatePath(gk); template != nil {
		rules = append(rules, restarted(template))
		if merge.KeepsResources(obj) {
			rules = append(rules, resources(template)...)
		}
	}
	switch {
	case gk.Group == "batch" && gk.Kind == "Job":
		rules = append(rules, winning(subtree("spec.selector")), subtree("spec.template.metadata.labels"))
	case (gk.Group == "apps" || gk.Group == "extensions") && gk.Kind == "StatefulSet":
		rules = append(rules, winning(subtree("spec.volumeClaimTemplates")))
	}
	return rules
}
