package apply

import (
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"slices"

	"github.com/cespare/xxhash/v2"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/engine/inventory"
	"github.com/trellis-hub/trellis/engine/manifest"
	"github.com/trellis-hub/trellis/engine/merge"
)

// Description is the value of the description annotation. It must not change, since that would rewrite every object.
const Description = "This object is kept as its ManagedResource says: edits are undone. Its origin annotation names the ManagedResource."

// Marks are the labels and annotations that the hub adds to every object of a ManagedResource.
type Marks struct {
	// Labels go into the object and its templates and win over the manifest.
	Labels map[string]string
	// Origin names the ManagedResource.
	Origin string
	// ForceLabels and ForceAnnotations remove all labels or annotations that are neither the manifest's nor ours.
	ForceLabels, ForceAnnotations bool
}

// Prepared is a manifest ready to be applied, with its entry in the inventory.
type Prepared struct {
	Intent
	Entry resourcesv1alpha1.ObjectReference
	// Unserved is true if the target does not serve the kind, and no definition in the bundle will make it do so.
	Unserved bool
}

// Prepare turns a manifest into what is sent to the target. The manifest is not changed, and the result shares
// unchanged content with it. text is the manifest as JSON, nil if it is not known. The namespace depends on the mapper:
// it defaults to "default" for namespaced kinds, and is removed for cluster-scoped ones. scoped reports the scope of
// kinds that the mapper does not know yet because their definition is in the same bundle; nil knows none.
func Prepare(ctx context.Context, original *unstructured.Unstructured, text *manifest.Text, mapper meta.RESTMapper,
	scoped func(*unstructured.Unstructured) (namespaced, known bool), marks Marks) (Prepared, error) {
	if err := checkSecret(original); err != nil {
		return Prepared{}, err
	}
	if err := merge.Supported(original); err != nil {
		return Prepared{}, err
	}
	obj := shallow(original)
	clean(obj)
	served, err := settleNamespace(ctx, obj, mapper, scoped)
	if err != nil {
		return Prepared{}, err
	}
	annotations := obj.GetAnnotations()
	ignored := resourcesv1alpha1.IsTruthy(annotations[resourcesv1alpha1.IgnoreAnnotation])

	entryLabels := merged(obj.GetLabels(), marks.Labels)
	entry := inventory.Entry(obj, entryLabels, nonEmpty(maps.Clone(annotations)))
	prepared := Prepared{Entry: entry, Intent: Intent{Object: obj, Key: inventory.KeyOfObject(obj), CreateOnly: ignored,
		text: text}, Unserved: !served}
	if ignored {
		return prepared, nil // it is created as in the manifest
	}
	if err := injectLabels(obj, marks.Labels); err != nil {
		return Prepared{}, err
	}
	obj.SetAnnotations(merged(annotations, map[string]string{
		resourcesv1alpha1.OriginAnnotation:      marks.Origin,
		resourcesv1alpha1.DescriptionAnnotation: Description,
	}))
	if prepared.Digest, err = digest(text, obj); err != nil {
		return Prepared{}, fmt.Errorf("encoding the manifest: %w", err)
	}
	if marks.ForceLabels {
		prepared.ForceLabels = true
		prepared.Digest ^= forceLabelsSalt
	}
	if marks.ForceAnnotations {
		prepared.ForceAnnotations = true
		prepared.Digest ^= forceAnnotationsSalt
	}
	return prepared, nil
}

// shallow returns a copy of the top-level fields of an object and of its metadata. Everything below is shared, and must
// be copied before it is changed.
func shallow(obj *unstructured.Unstructured) *unstructured.Unstructured {
	content := maps.Clone(obj.Object)
	if metadata, ok := content["metadata"].(map[string]any); ok {
		content["metadata"] = maps.Clone(metadata)
	}
	return &unstructured.Unstructured{Object: content}
}

// digest hashes what is sent. It is streamed into the hash, because it may be megabytes.
func digest(text *manifest.Text, obj *unstructured.Unstructured) (uint64, error) {
	sum := xxhash.New()
	if err := text.Write(sum, obj.Object); err != nil {
		return 0, err
	}
	return sum.Sum64(), nil
}

// clean removes fields that a manifest cannot set, and rewrites those that server-side apply would misinterpret.
func clean(obj *unstructured.Unstructured) {
	delete(obj.Object, "status")
	if metadata, ok := obj.Object["metadata"].(map[string]any); ok {
		for _, field := range []string{"managedFields", "resourceVersion", "uid", "generation", "creationTimestamp",
			"deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"} {
			delete(metadata, field)
		}
	}
	if gk := obj.GroupVersionKind().GroupKind(); gk.Group == "" && gk.Kind == "Secret" {
		mergeStringData(obj)
	}
	dropEmpty(obj)
	dropNullQuantities(obj)
}

// checkSecret rejects values that are not strings, such as an unquoted number. An API server does so as well, but
// quotes the value.
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

// mergeStringData moves stringData into data. Otherwise a key that is later removed from stringData would stay in data,
// because the server owns the converted field and not we.
func mergeStringData(obj *unstructured.Unstructured) {
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

// leftToOthers are fields that other controllers fill (package ownership), by group and kind. "*" stands for all fields
// of a map or all items of a list.
var leftToOthers = map[string][][]string{
	"/Namespace":             {{"spec", "finalizers"}},
	"/Node":                  {{"spec", "*"}},
	"/PersistentVolume":      {{"spec", "claimRef"}},
	"/PersistentVolumeClaim": {{"spec", "volumeName"}},
	"/Pod":                   {{"spec", "nodeName"}, {"spec", "tolerations"}, {"spec", "ephemeralContainers"}},
	"admissionregistration.k8s.io/MutatingWebhookConfiguration":   {{"webhooks", "*", "clientConfig", "caBundle"}},
	"admissionregistration.k8s.io/ValidatingWebhookConfiguration": {{"webhooks", "*", "clientConfig", "caBundle"}},
	"apiregistration.k8s.io/APIService":                           {{"spec", "caBundle"}},
	"apiextensions.k8s.io/CustomResourceDefinition": {{"spec", "conversion", "webhook", "clientConfig",
		"caBundle"}},
}

// dropEmpty removes fields that a manifest leaves empty for other controllers. If they were sent, we would own them and
// reset what others set.
func dropEmpty(obj *unstructured.Unstructured) {
	gk := obj.GroupVersionKind().GroupKind()
	for _, path := range leftToOthers[gk.Group+"/"+gk.Kind] {
		dropEmptyAt(obj, path)
	}
	if gk.Group == "rbac.authorization.k8s.io" && gk.Kind == "ClusterRole" && obj.Object["aggregationRule"] != nil {
		dropEmptyAt(obj, []string{"rules"})
	}
	if gk.Group == "" && gk.Kind == "Secret" && obj.Object["type"] == "kubernetes.io/service-account-token" {
		for _, path := range [][]string{{"data", "token"}, {"data", "ca.crt"}, {"data", "namespace"}, {"data"}} {
			dropEmptyAt(obj, path)
		}
	}
}

// dropNullQuantities removes nulls from the resources of containers. "cpu: null" means no quantity, but an API server
// reads a quantity of zero.
func dropNullQuantities(obj *unstructured.Unstructured) {
	gk := obj.GroupVersionKind().GroupKind()
	path := merge.TemplatePath(gk)
	if path == nil && gk != (schema.GroupKind{Kind: "Pod"}) {
		return
	}
	for _, containers := range []string{"containers", "initContainers"} {
		for _, amounts := range []string{"limits", "requests"} {
			dropAt(obj, slices.Concat(path, []string{"spec", containers, "*", "resources", amounts, "*"}), isNull)
		}
	}
}

func isNull(value any) bool { return value == nil }

func dropEmptyAt(obj *unstructured.Unstructured, path []string) { dropAt(obj, path, isEmpty) }

func dropAt(obj *unstructured.Unstructured, path []string, drop func(any) bool) {
	if left, changed := without(obj.Object, path, drop); changed {
		obj.Object, _ = left.(map[string]any)
	}
}

// without returns a node without the values to drop at a path, and whether there were any. Only changed parts are
// copied.
func without(node any, path []string, drop func(any) bool) (left any, changed bool) {
	switch node := node.(type) {
	case []any:
		if path[0] != "*" || len(path) == 1 {
			return node, false
		}
		items := node
		for i, item := range node {
			if item, dropped := without(item, path[1:], drop); dropped {
				if !changed {
					items, changed = slices.Clone(node), true
				}
				items[i] = item
			}
		}
		return items, changed
	case map[string]any:
		fields := node
		for field, value := range node {
			if field != path[0] && path[0] != "*" {
				continue
			}
			dropped, removed := false, len(path) == 1 && drop(value)
			if len(path) > 1 {
				value, dropped = without(value, path[1:], drop)
			}
			if !removed && !dropped {
				continue
			}
			if !changed {
				fields, changed = maps.Clone(node), true
			}
			if removed {
				delete(fields, field)
			} else {
				fields[field] = value
			}
		}
		return fields, changed
	}
	return node, false
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

// settleNamespace sets or removes the namespace. It also reports whether the target serves the kind, or will once the
// bundle is applied. One call of the mapper answers both: it may ask the target each time, and two different answers
// would contradict each other.
func settleNamespace(ctx context.Context, obj *unstructured.Unstructured, mapper meta.RESTMapper,
	scoped func(*unstructured.Unstructured) (bool, bool)) (served bool, err error) {
	namespaced := !inventory.IsNamespace(obj.GroupVersionKind().GroupKind())
	mapping, err := mappingFor(ctx, mapper, obj)
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

// injectLabels writes labels into the object, its pod template and its volume claim templates, whatever the kind.
func injectLabels(obj *unstructured.Unstructured, labels map[string]string) error {
	obj.SetLabels(merged(obj.GetLabels(), labels))
	spec, ok := obj.Object["spec"].(map[string]any)
	if !ok {
		return nil
	}
	changed := maps.Clone(spec)
	if template := spec["template"]; template != nil {
		var err error
		if changed["template"], err = labelled(template, "spec.template", labels); err != nil {
			return err
		}
		obj.Object["spec"] = changed
	}
	if claims, ok := spec["volumeClaimTemplates"].([]any); ok && len(claims) > 0 {
		claims = slices.Clone(claims)
		for i, claim := range claims {
			var err error
			if claims[i], err = labelled(claim, fmt.Sprintf("spec.volumeClaimTemplates[%d]", i), labels); err != nil {
				return err
			}
		}
		changed["volumeClaimTemplates"] = claims
		obj.Object["spec"] = changed
	}
	return nil
}

// labelled returns a template with labels added. Unchanged content is shared.
func labelled(template any, path string, labels map[string]string) (map[string]any, error) {
	content, ok := template.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%s is not a map, so labels cannot be injected into it", path)
	}
	metadata, ok := content["metadata"].(map[string]any)
	if !ok && content["metadata"] != nil {
		return nil, fmt.Errorf("%s: metadata is not a map, so labels cannot be injected into it", path)
	}
	existing, _ := metadata["labels"].(map[string]any)
	all := make(map[string]any, len(existing)+len(labels))
	maps.Copy(all, existing)
	for k, v := range labels {
		all[k] = v
	}
	metadata = cloned(metadata)
	metadata["labels"] = all
	content = maps.Clone(content)
	content["metadata"] = metadata
	return content, nil
}

// cloned returns a writable copy of a map that may be nil.
func cloned(m map[string]any) map[string]any {
	if m == nil {
		return map[string]any{}
	}
	return maps.Clone(m)
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
