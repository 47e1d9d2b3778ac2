package histories

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
)

// The sizes of a world. They are small, so that histories run into each other.
const (
	spaces         = 3  // namespaces of the source with ManagedResources
	resourcesEach  = 4  // ManagedResources in each
	secretsEach    = 2  // content Secrets that each ManagedResource has for itself
	registrations  = 2  // names of registrations in each space
	objects        = 48 // objects that a bundle can hold
	namespacesEach = 2  // namespaces of a target with such objects
)

// seedSpace is the space whose ManagedResources may have the class that goes to the source cluster itself.
const seedSpace = spaces - 1

// Clusters of a world. The west is the source as well.
const (
	west = iota
	east
	clusters
)

var clusterNames = [clusters]string{"west", "east"}

// classes are those that a ManagedResource can get; the hub knows all but the last.
var classes = []string{"", "b", "seed", "foreign"}

// The keys by which foreigners mark what they did.
const (
	valueAnnotation = "histories/value"
	foreignLabel    = "histories/foreign"
	blocker         = "histories/blocker"
	widgetGroup     = "histories.example.com"
)

// kind is a kind of objects.
type kind struct {
	schema.GroupVersionResource
	name       string
	namespaced bool
}

func (k kind) gvk() schema.GroupVersionKind { return k.GroupVersion().WithKind(k.name) }

var kinds = []kind{
	{schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, "ConfigMap", true},
	{schema.GroupVersionResource{Version: "v1", Resource: "secrets"}, "Secret", true},
	{schema.GroupVersionResource{Version: "v1", Resource: "serviceaccounts"}, "ServiceAccount", true},
	{schema.GroupVersionResource{Group: widgetGroup, Version: "v1", Resource: "widgets"}, "Widget", true},
	{schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"}, "ClusterRole", false},
}

// universe names everything that can exist in a world.
type universe struct {
	prefix string
}

func (u universe) space(i int) string { return fmt.Sprintf("%s-space%d", u.prefix, i) }

// spaceOf is the space of a ManagedResource or of a Secret; both are numbered through.
func spaceOfResource(m int) int { return m / resourcesEach }
func spaceOfSecret(s int) int   { return s / (resourcesEach * secretsEach) }

func resourceName(m int) string { return fmt.Sprintf("mr%d", m) }
func secretName(s int) string   { return fmt.Sprintf("content%d", s) }
func registrationName(r int) string {
	return fmt.Sprintf("r%d", r%registrations)
}

// resourceNamed is the number of a ManagedResource or Secret, -1 for a name that is none.
func numberIn(name, prefix string, limit int) int {
	var n int
	if _, err := fmt.Sscanf(name, prefix+"%d", &n); err != nil || n < 0 || n >= limit || name != fmt.Sprint(prefix, n) {
		return -1
	}
	return n
}

func (u universe) origin(m int) string {
	return u.space(spaceOfResource(m)) + "/" + resourceName(m)
}

// resourceOfOrigin is the ManagedResource that an origin names, -1 if it is none of this world.
func (u universe) resourceOfOrigin(origin string) int {
	_, name, _ := strings.Cut(origin, "/")
	m := numberIn(name, "mr", spaces*resourcesEach)
	if m < 0 || u.origin(m) != origin {
		return -1
	}
	return m
}

func kindOf(o int) kind { return kinds[o%len(kinds)] }

func (u universe) namespace(o int) string {
	if !kindOf(o).namespaced {
		return ""
	}
	return fmt.Sprintf("%s-objects%d", u.prefix, o/len(kinds)%namespacesEach)
}

func (u universe) name(o int) string {
	if kindOf(o).namespaced {
		return fmt.Sprintf("o%d", o)
	}
	return fmt.Sprintf("%s-o%d", u.prefix, o)
}

// object is the number of an object by its resource or kind, -1 for a foreign one.
func (u universe) object(kindOrResource, namespace, name string) int {
	n := numberIn(strings.TrimPrefix(name, u.prefix+"-"), "o", objects)
	if n < 0 || u.name(n) != name || u.namespace(n) != namespace {
		return -1
	}
	if k := kindOf(n); k.name != kindOrResource && k.Resource != kindOrResource {
		return -1
	}
	return n
}

func (u universe) describe(o int) string {
	return fmt.Sprintf("o%d (%s %s/%s)", o, kindOf(o).name, u.namespace(o), u.name(o))
}

// entry is an object in a Secret.
type entry struct {
	value      int
	ignore     bool // the manifest asks to create and then ignore it
	modeIgnore bool // the manifest asks not to manage it
}

// content is an object's payload for a value.
func content(o, value int) map[string]any {
	text := fmt.Sprint(value)
	switch kindOf(o).name {
	case "ConfigMap":
		return map[string]any{"data": map[string]any{"value": text}}
	case "Secret":
		return map[string]any{"stringData": map[string]any{"value": text}}
	case "Widget":
		return map[string]any{"spec": map[string]any{"value": text}}
	case "ClusterRole":
		return map[string]any{"rules": []any{map[string]any{"apiGroups": []any{""}, "resources": []any{"pods"}, "resourceNames": []any{text}, "verbs": []any{"get"}}}}
	default:
		return map[string]any{}
	}
}

// object as a user writes it.
func (u universe) body(o, value int, annotations map[string]any) map[string]any {
	annotations[valueAnnotation] = fmt.Sprint(value)
	metadata := map[string]any{"name": u.name(o), "annotations": annotations}
	if ns := u.namespace(o); ns != "" {
		metadata["namespace"] = ns
	}
	body := content(o, value)
	body["apiVersion"], body["kind"] = kindOf(o).gvk().ToAPIVersionAndKind()
	body["metadata"] = metadata
	return body
}

func (u universe) manifest(o int, e entry) string {
	annotations := map[string]any{}
	if e.ignore {
		annotations[resourcesv1alpha1.IgnoreAnnotation] = "true"
	}
	if e.modeIgnore {
		annotations[resourcesv1alpha1.ModeAnnotation] = resourcesv1alpha1.ModeIgnore
	}
	raw, err := json.Marshal(u.body(o, e.value, annotations))
	if err != nil {
		panic(err) // a map of strings
	}
	return string(raw)
}

// manifests renders a Secret's objects. Those that are hidden are in documents that cannot be read.
func (u universe) manifests(s secret) string {
	var documents []string
	for o := range objects {
		e, ok := s.entries[o]
		switch {
		case !ok:
		case s.fault == faultDocument && slices.Contains(s.hidden(), o):
			documents = append(documents, "kind: [broken "+u.name(o))
		case s.fault == faultKind && slices.Contains(s.hidden(), o):
			documents = append(documents, strings.Replace(u.manifest(o, e), `"kind":"`+kindOf(o).name, `"kind":"Mis`+kindOf(o).name, 1))
		case s.fault == faultNameless && slices.Contains(s.hidden(), o):
			documents = append(documents, strings.Replace(u.manifest(o, e), `"name":"`, `"nom":"`, 1))
		default:
			documents = append(documents, u.manifest(o, e))
		}
	}
	if s.fault != faultNone && len(s.entries) == 0 {
		documents = append(documents, "kind: [broken")
	}
	return strings.Join(documents, "\n---\n")
}
