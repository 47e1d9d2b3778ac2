package apply

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/cespare/xxhash/v2"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/controllers/managedresource/inventory"
	"github.com/trellis-hub/trellis/controllers/managedresource/merge"
)

// Description is the value of the description annotation. It never varies: a change would rewrite every object.
const Description = "This object is kept as its ManagedResource says: edits are undone. Its origin annotation names the ManagedResource."

// Marks are what the hub adds to every object of a ManagedResource.
type Marks struct {
	// Labels go into the object and its templates and win over the manifest (spec/managedresource.md 2.8).
	Labels map[string]string
	// Origin names the ManagedResource (spec/managedresource.md 1.8).
	Origin string
	// ForceLabels and ForceAnnotations are set if objects are to have no labels or annotations but the manifest's and ours.
	ForceLabels, ForceAnnotations bool
}

// Prepared is a manifest ready to be applied, with its entry in the inventory.
type Prepared struct {
	Intent
	Entry resourcesv1alpha1.ObjectReference
	// Unserved is true if the target does not serve the kind, and no definition in the bundle will make it do so.
	Unserved bool
}

// Prepare turns a manifest into what is sent to the target. The manifest is not changed. Its namespace is settled with the
// mapper: namespaced kinds default to "default", cluster-scoped ones lose theirs. scoped tells for kinds that the mapper
// does not know yet, because their definition is in the same bundle, whether they are namespaced; nil knows none.
func Prepare(manifest *unstructured.Unstructured, mapper meta.RESTMapper, scoped func(*unstructured.Unstructured) (namespaced, known bool), marks Marks) (Prepared, error) {
	if err := checkSecret(manifest); err != nil {
		return Prepared{}, err
	}
	if err := merge.Supported(manifest); err != nil {
		return Prepared{}, err
	}
	obj := manifest.DeepCopy()
	clean(obj)
	served, err := settleNamespace(obj, mapper, scoped)
	if err != nil {
		return Prepared{}, err
	}
	annotations := obj.GetAnnotations()
	ignored := resourcesv1alpha1.IsTruthy(annotations[resourcesv1alpha1.IgnoreAnnotation])

	entryLabels := merged(obj.GetLabels(), marks.Labels)
	entry := inventory.Entry(obj, entryLabels, nonEmpty(maps.Clone(annotations)))
	prepared := Prepared{Entry: entry, Intent: Intent{Object: obj, Key: inventory.KeyOfObject(obj), CreateOnly: ignored}, Unserved: !served}
	if ignored {
		return prepared, nil // posted as the manifest says: spec/managedresource.md 2.9 step 4
	}
	if err := injectLabels(obj, marks.Labels); err != nil {
		return Prepared{}, err
	}
	obj.SetAnnotations(merged(annotations, map[string]string{
		resourcesv1alpha1.OriginAnnotation:      marks.Origin,
		resourcesv1alpha1.DescriptionAnnotation: Description,
	}))
	raw, err := json.Marshal(obj.Object) // with sorted keys
	if err != nil {
		return Prepared{}, fmt.Errorf("encoding the manifest: %w", err)
	}
	prepared.Digest = xxhash.Sum64(raw)
	if marks.ForceLabels {
		prepared.ForceLabels = true
		prepared.Digest ^= forceLabelsMark
	}
	if marks.ForceAnnotations {
		prepared.ForceAnnotations = true
		prepared.Digest ^= forceAnnotationsMark
	}
	return prepared, nil
}

// clean removes what a manifest cannot say, and settles what server-side apply would otherwise misread.
func clean(obj *unstructured.Unstructured) {
	delete(obj.Object, "status")
	if metadata, ok := obj.Object["metadata"].(map[string]any); ok {
		for _, field := range []string{"managedFields", "resourceVersion", "uid", "generation", "creationTimestamp",
			"deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"} {
			delete(metadata, field)
		}
	}
	if gk := obj.GroupVersionKind().GroupKind(); gk.Group == "" && gk.Kind == "Secret" {
		foldStringData(obj)
	}
	dropEmpty(obj)
}

// checkSecret refuses values that are no strings, such as an unquoted number. An API server would, too, but its answer
// quotes them.
func checkSecret(obj *unstructured.Unstructured) error {
	if gk := obj.GroupVersionKind().GroupKind(); gk.Group != "" || gk.Kind != "Secret" {
		return nil
	}
	for _, field := range []string{"data", "stringData"} {
		value := obj.Object[field]
		values, ok := value.(map[string]any)
		if !ok && value != nil {
			return fmt.Errorf("%s of the Secret is not a map", field)
		}
		for _, key := range slices.Sorted(maps.Keys(values)) {
			if v := values[key]; v != nil {
				if _, ok := v.(string); !ok {
					return fmt.Errorf("%s.%s of the Secret is not a string; a number or truth value needs quotes", field, key)
				}
			}
		}
	}
	return nil
}

// foldStringData moves stringData into data. Sent as it is, a key that later vanishes from stringData would stay in data,
// because the server owns the conversion and not we.
func foldStringData(obj *unstructured.Unstructured) {
	plain, found, _ := unstructured.NestedMap(obj.Object, "stringData")
	if !found {
		return
	}
	data, _, _ := unstructured.NestedMap(obj.Object, "data")
	if data == nil {
		data = map[string]any{}
	}
	for k, v := range plain {
		if s, ok := v.(string); ok {
			data[k] = base64.StdEncoding.EncodeToString([]byte(s))
			delete(plain, k)
		}
	}
	obj.Object["data"] = data
	if len(plain) == 0 {
		delete(obj.Object, "stringData")
	}
}

// leftToOthers are fields that somebody else fills (package ownership), by group and kind. "*" stands for all fields of a
// map or all items of a list.
var leftToOthers = map[string][][]string{
	"/Namespace":             {{"spec", "finalizers"}},
	"/Node":                  {{"spec", "*"}},
	"/PersistentVolume":      {{"spec", "claimRef"}},
	"/PersistentVolumeClaim": {{"spec", "volumeName"}},
	"/Pod":                   {{"spec", "nodeName"}, {"spec", "tolerations"}, {"spec", "ephemeralContainers"}},
	"admissionregistration.k8s.io/MutatingWebhookConfiguration":   {{"webhooks", "*", "clientConfig", "caBundle"}},
	"admissionregistration.k8s.io/ValidatingWebhookConfiguration": {{"webhooks", "*", "clientConfig", "caBundle"}},
	"apiregistration.k8s.io/APIService":                           {{"spec", "caBundle"}},
	"apiextensions.k8s.io/CustomResourceDefinition":               {{"spec", "conversion", "webhook", "clientConfig", "caBundle"}},
}

// dropEmpty removes what a manifest leaves empty for others. Sent as it is, it would be ours, and taken from them.
func dropEmpty(obj *unstructured.Unstructured) {
	gk := obj.GroupVersionKind().GroupKind()
	for _, path := range leftToOthers[gk.Group+"/"+gk.Kind] {
		dropEmptyAt(obj.Object, path)
	}
	if gk.Group == "rbac.authorization.k8s.io" && gk.Kind == "ClusterRole" && obj.Object["aggregationRule"] != nil {
		dropEmptyAt(obj.Object, []string{"rules"})
	}
	if gk.Group == "" && gk.Kind == "Secret" && obj.Object["type"] == "kubernetes.io/service-account-token" {
		for _, path := range [][]string{{"data", "token"}, {"data", "ca.crt"}, {"data", "namespace"}, {"data"}} {
			dropEmptyAt(obj.Object, path)
		}
	}
}

func dropEmptyAt(node any, path []string) {
	switch node := node.(type) {
	case []any:
		if path[0] == "*" && len(path) > 1 {
			for _, item := range node {
				dropEmptyAt(item, path[1:])
			}
		}
	case map[string]any:
		for field, value := range node {
			switch {
			case field != path[0] && path[0] != "*":
			case len(path) > 1:
				dropEmptyAt(value, path[1:])
			case isEmpty(value):
				delete(node, field)
			}
		}
	}
}

func isEmpty(value any) bool {
	switch v := value.(type) {
	case nil:
		return true
	case string:
		return v == ""
	case []any:
		return len(v) == 0
	case map[string]any:
		return len(v) == 0
	}
	return false
}

// settleNamespace also tells whether the target serves the kind, or will once the bundle is applied. The mapper is asked only
// once for both: it may ask the target each time, and an answer that does not come the second time must not count as another
// one than what it said the first time.
func settleNamespace(obj *unstructured.Unstructured, mapper meta.RESTMapper, scoped func(*unstructured.Unstructured) (bool, bool)) (served bool, err error) {
	namespaced := !inventory.IsNamespace(obj.GroupVersionKind().GroupKind())
	mapping, err := mappingFor(mapper, obj)
	switch {
	case err == nil:
		namespaced, served = mapping.Scope.Name() == meta.RESTScopeNameNamespace, true
	case !meta.IsNoMatchError(err):
		return false, fmt.Errorf("looking up the kind: %w", err)
	case scoped != nil:
		if n, defined := scoped(obj); defined {
			namespaced, served = n, true
		}
	}
	switch {
	case !namespaced:
		obj.SetNamespace("")
	case obj.GetNamespace() == "":
		obj.SetNamespace("default")
	}
	return served, nil
}

// injectLabels writes labels into the object, its pod template and its volume claim templates, whatever the kind
// (spec/managedresource.md 2.8).
func injectLabels(obj *unstructured.Unstructured, labels map[string]string) error {
	obj.SetLabels(merged(obj.GetLabels(), labels))
	spec, ok := obj.Object["spec"].(map[string]any)
	if !ok {
		return nil
	}
	if template, found := spec["template"]; found && template != nil {
		m, ok := template.(map[string]any)
		if !ok {
			return fmt.Errorf("spec.template is not a map, so labels cannot be injected into it")
		}
		if err := mergeLabels(m, labels); err != nil {
			return fmt.Errorf("spec.template: %w", err)
		}
	}
	if claims, ok := spec["volumeClaimTemplates"].([]any); ok {
		for i, c := range claims {
			m, ok := c.(map[string]any)
			if !ok {
				return fmt.Errorf("spec.volumeClaimTemplates[%d] is not a map, so labels cannot be injected into it", i)
			}
			if err := mergeLabels(m, labels); err != nil {
				return fmt.Errorf("spec.volumeClaimTemplates[%d]: %w", i, err)
			}
		}
	}
	return nil
}

func mergeLabels(template map[string]any, labels map[string]string) error {
	metadata, ok := template["metadata"].(map[string]any)
	if !ok {
		if template["metadata"] != nil {
			return fmt.Errorf("metadata is not a map, so labels cannot be injected into it")
		}
		metadata = map[string]any{}
		template["metadata"] = metadata
	}
	existing, ok := metadata["labels"].(map[string]any)
	if !ok {
		existing = map[string]any{}
		metadata["labels"] = existing
	}
	for k, v := range labels {
		existing[k] = v
	}
	return nil
}

func merged(base, over map[string]string) map[string]string {
	out := make(map[string]string, len(base)+len(over))
	maps.Copy(out, base)
	maps.Copy(out, over)
	return nonEmpty(out)
}

func nonEmpty(m map[string]string) map[string]string {
	if len(m) == 0 {
		return nil
	}
	return m
}
