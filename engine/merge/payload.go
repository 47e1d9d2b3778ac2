package merge

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
)

var (
	service        = schema.GroupKind{Kind: "Service"}
	serviceAccount = schema.GroupKind{Kind: "ServiceAccount"}
	job            = schema.GroupKind{Group: "batch", Kind: "Job"}
	cronJob        = schema.GroupKind{Group: "batch", Kind: "CronJob"}
)

// scalable reports whether the live replicas of a kind may be kept.
func scalable(gk schema.GroupKind) bool {
	return (gk.Group == "apps" || gk.Group == "extensions") && (gk.Kind == "Deployment" || gk.Kind == "StatefulSet")
}

func isStatefulSet(gk schema.GroupKind) bool { return scalable(gk) && gk.Kind == "StatefulSet" }

// KeepsReplicas reports whether the live replicas of an object win over its manifest's.
func KeepsReplicas(desired *unstructured.Unstructured, autoscaled bool) bool {
	if !scalable(desired.GroupVersionKind().GroupKind()) {
		return false
	}
	_, set := mapAt(desired.Object, "spec")["replicas"]
	return !set || autoscaled || AnnotationsOf(desired)[resourcesv1alpha1.PreserveReplicasAnnotation] == "true"
}

// KeepsResources reports whether live CPU and memory of an object's containers win over its manifest's.
func KeepsResources(desired *unstructured.Unstructured) bool {
	return AnnotationsOf(desired)[resourcesv1alpha1.PreserveResourcesAnnotation] == "true" &&
		TemplatePath(desired.GroupVersionKind().GroupKind()) != nil
}

// NeedsLive reports whether what to send depends on the live object. exists is true if it is known to exist.
func NeedsLive(desired *unstructured.Unstructured, o Options, exists bool) bool {
	if !exists && len(CreationOnly(desired)) > 0 {
		return true
	}
	gk := desired.GroupVersionKind().GroupKind()
	switch {
	case gk == job, KeepsReplicas(desired, o.Autoscaled), KeepsResources(desired):
		return true
	case isStatefulSet(gk) && mapAt(desired.Object, "spec")["volumeClaimTemplates"] != nil:
		return true
	case gk == service && hasNodePorts(mapAt(desired.Object, "spec")):
		return true
	}
	return restartedAt(desired.Object, gk) != nil
}

// CreationOnly lists the fields of a manifest that are set only when the object is created.
func CreationOnly(desired *unstructured.Unstructured) (paths [][]string) {
	if f, ok := mapAt(desired.Object, "metadata")["finalizers"].([]any); ok && len(f) > 0 {
		paths = append(paths, []string{"metadata", "finalizers"})
	}
	if desired.GetKind() == "ServiceAccount" && desired.GroupVersionKind().GroupKind() == serviceAccount {
		for _, field := range []string{"secrets", "imagePullSecrets"} {
			if _, set := desired.Object[field]; set {
				paths = append(paths, []string{field})
			}
		}
	}
	return paths
}

// Passing lists the fields of a body whose ownership the hub gives up once they are written, so that a later manifest
// without them does not remove them.
func Passing(body *unstructured.Unstructured) []fieldpath.Path {
	var paths []fieldpath.Path
	for _, names := range CreationOnly(body) {
		paths = append(paths, fields(names...))
	}
	gk := body.GroupVersionKind().GroupKind()
	if restartedAt(body.Object, gk) != nil {
		paths = append(paths, append(fields(TemplatePath(gk)...),
			fields("metadata", "annotations", resourcesv1alpha1.RestartedAtAnnotation)...))
	}
	return paths
}

// Supported returns an error if the merge rules do not support the version of a kind.
func Supported(obj *unstructured.Unstructured) error {
	gvk := obj.GroupVersionKind()
	if gvk.GroupKind() == cronJob && gvk.Version != "v1" && gvk.Version != "v1beta1" {
		return fmt.Errorf("CronJobs of version %s are not supported", gvk.GroupVersion())
	}
	return nil
}

// Keep adapts body, a copy of the manifest, to the live object: a field whose live value wins is sent with it if it is
// among the owned fields, and left out otherwise.
func Keep(body, live *unstructured.Unstructured, owned *fieldpath.Set, o Options) error {
	k := keeper{owned: owned}
	// Finalizers that we still own have to be sent: an apply without them would remove them.
	own := has(owned, fields("metadata", "finalizers"))
	if finalizers := live.GetFinalizers(); own && len(finalizers) > 0 {
		body.SetFinalizers(slices.DeleteFunc(finalizers, func(
			f string) bool {
			return !owned.Has(append(fields("metadata", "finalizers"), member(f)))
		}))
	} else {
		unstructured.RemoveNestedField(body.Object, "metadata", "finalizers")
	}
	return k.payload(body, live, o)
}

// Object returns the whole object for an update: the manifest with the live metadata and all kept fields.
func Object(desired, live *unstructured.Unstructured, o Options) (*unstructured.Unstructured, error) {
	out := desired.DeepCopy()
	k := keeper{full: true}
	if metadata := mapAt(live.Object, "metadata"); len(metadata) > 0 {
		out.Object["metadata"] = runtime.DeepCopyJSON(metadata)
	}
	out.SetLabels(labels(desired, live, o))
	out.SetAnnotations(annotations(desired, live, o))
	if owners, found := mapAt(desired.Object, "metadata")["ownerReferences"]; found && owners != nil {
		mapAt(out.Object, "metadata")["ownerReferences"] = runtime.DeepCopyJSONValue(owners)
	} else {
		unstructured.RemoveNestedField(out.Object, "metadata", "ownerReferences")
	}
	if metadata := mapAt(out.Object, "metadata"); metadata != nil && len(metadata) == 0 {
		delete(out.Object, "metadata") // so that merging again gives the same result
	}
	delete(out.Object, "status")
	if status, ok := live.Object["status"].(map[string]any); ok && len(status) > 0 {
		out.Object["status"] = runtime.DeepCopyJSON(status)
	}
	if err := k.payload(out, live, o); err != nil {
		return nil, err
	}
	fill(out, live)
	return out, nil
}

// keeper sets fields whose live value wins.
type keeper struct {
	// full is true for an update, which needs all kept fields; an apply has only the owned ones.
	full  bool
	owned *fieldpath.Set
}

func (k keeper) payload(body, live *unstructured.Unstructured, o Options) error {
	if err := Supported(body); err != nil {
		return err
	}
	gk := body.GroupVersionKind().GroupKind()
	spec, liveSpec := mapAt(body.Object, "spec"), mapAt(live.Object, "spec")
	if spec != nil && KeepsReplicas(body, o.Autoscaled) {
		k.ifThere(spec, liveSpec, "replicas", fields("spec"))
	}
	if spec != nil && isStatefulSet(gk) && live.GetCreationTimestamp().Unix() > 0 {
		k.always(spec, liveSpec, "volumeClaimTemplates", fields("spec"))
	}
	switch gk {
	case job:
		if spec != nil {
			k.always(spec, liveSpec, "selector", fields("spec"))
			if _, set := spec["completions"]; !set { // it is immutable, and may be a default
				k.ifThere(spec, liveSpec, "completions", fields("spec"))
			}
		}
		k.jobLabels(body.Object, live.Object)
	case service:
		if spec != nil {
			k.service(spec, liveSpec)
		}
	case serviceAccount:
		k.always(body.Object, live.Object, "secrets", nil)
		k.always(body.Object, live.Object, "imagePullSecrets", nil)
	}
	k.template(body, live, gk)
	return nil
}

// ifThere sets a field whose live value wins if there is one.
func (k keeper) ifThere(body, live map[string]any, field string, at fieldpath.Path) {
	v, found := live[field]
	switch {
	case !found:
	case k.full || has(k.owned, append(at[:len(at):len(at)], fields(field)...)):
		body[field] = runtime.DeepCopyJSONValue(v)
	default:
		delete(body, field)
	}
}

// always sets a field to its live value, or removes it if there is none.
func (k keeper) always(body, live map[string]any, field string, at fieldpath.Path) {
	delete(body, field)
	k.ifThere(body, live, field, at)
}

// has reports whether a set has a path or anything below it.
func has(set *fieldpath.Set, path fieldpath.Path) bool {
	for i, pe := range path {
		if set == nil {
			return false
		}
		if i == len(path)-1 && set.Members.Has(pe) {
			return true
		}
		next, ok := set.Children.Get(pe)
		if !ok {
			return false
		}
		set = next
	}
	return set != nil
}

func fields(names ...string) fieldpath.Path {
	path := make(fieldpath.Path, 0, len(names)+2)
	for i := range names {
		path = append(path, fieldpath.PathElement{FieldName: &names[i]})
	}
	return path
}

// member is an element of a list that is a set.
func member(v string) fieldpath.PathElement {
	val := value.NewValueInterface(v)
	return fieldpath.PathElement{Value: &val}
}

// item is an element of a list that is a map. keys are its key fields in order of their names, each with its value.
func item(keys ...any) fieldpath.PathElement {
	list := make(value.FieldList, 0, len(keys)/2)
	for i := 0; i+1 < len(keys); i += 2 {
		name, _ := keys[i].(string)
		list = append(list, value.Field{Name: name, Value: value.NewValueInterface(keys[i+1])})
	}
	return fieldpath.PathElement{Key: &list}
}

// mapAt returns the map at a path, nil if there is none.
func mapAt(m map[string]any, path ...string) map[string]any {
	for _, p := range path {
		m, _ = m[p].(map[string]any)
	}
	return m
}

// ensure returns the map at a path and creates missing maps. It returns nil if a value on the path is not a map.
func ensure(m map[string]any, path ...string) map[string]any {
	for _, p := range path {
		next, ok := m[p].(map[string]any)
		if !ok {
			if m[p] != nil {
				return nil
			}
			next = map[string]any{}
			m[p] = next
		}
		m = next
	}
	return m
}
