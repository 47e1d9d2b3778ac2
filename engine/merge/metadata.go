package merge

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
)

// Options are the inputs of a merge besides the manifest and the live object.
type Options struct {
	// BaseLabels and BaseAnnotations are those of the last apply, the base of the three-way merges.
	BaseLabels, BaseAnnotations map[string]string
	// ForceLabels and ForceAnnotations remove live ones that the manifest does not have.
	ForceLabels, ForceAnnotations bool
	// Autoscaled is set if an autoscaler sets the replicas of the object.
	Autoscaled bool
	// ControlPlane reports whether a part of the control plane wrote an annotation, which then stays. Nil means none.
	ControlPlane func(key string) bool
}

// StaleLabels returns the labels of the live object that have to be removed, sorted.
func StaleLabels(desired Values, live map[string]string, o Options) []string {
	if !o.ForceLabels {
		return unchangedSince(o.BaseLabels, desired, live)
	}
	var stale []string
	for k := range live {
		if !desired.has(k) && k != namespaceNameLabel {
			stale = append(stale, k)
		}
	}
	slices.Sort(stale)
	return stale
}

// StaleAnnotations is StaleLabels for annotations. References for the garbage collector that the manifest does not have
// are always removed.
func StaleAnnotations(kind schema.GroupKind, desired Values, live map[string]string, o Options) []string {
	var stale []string
	if o.ForceAnnotations {
		for k := range live {
			if !desired.has(k) && !stays(kind, k, o.ControlPlane) {
				stale = append(stale, k)
			}
		}
	} else {
		stale = unchangedSince(o.BaseAnnotations, desired, live)
		for k := range live {
			if strings.HasPrefix(k, resourcesv1alpha1.ReferencePrefix) && !desired.has(k) && !slices.Contains(stale, k) {
				stale = append(stale, k)
			}
		}
	}
	slices.Sort(stale)
	return stale
}

// unchangedSince lists the keys that were managed, are not any longer, and still have their managed value.
func unchangedSince(base map[string]string, desired Values, live map[string]string) (keys []string) {
	for k, v := range base {
		if now, there := live[k]; there && now == v && !desired.has(k) {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	return keys
}

// namespaceNameLabel is put on every Namespace by the API server.
const namespaceNameLabel = "kubernetes.io/metadata.name"

// stays reports whether an annotation is kept although the annotations are forced.
func stays(kind schema.GroupKind, key string, controlPlane func(string) bool) bool {
	return kind == service && strings.HasPrefix(key, "loadbalancer.openstack.org") || ByServer(key) ||
		controlPlane != nil && controlPlane(key)
}

// ByServer reports whether the API server uses an annotation to represent a field that a version of a kind does not
// have. Such annotations cannot be removed.
func ByServer(key string) bool {
	return key == "deprecated.daemonset.template.generation" || strings.HasPrefix(key, "autoscaling.alpha.kubernetes.io/")
}

// Values are the labels or annotations of a manifest, as in its content.
type Values map[string]any

func (v Values) has(key string) bool {
	_, ok := v[key]
	return ok
}

// LabelsOf returns the labels of a manifest without copying them.
func LabelsOf(obj *unstructured.Unstructured) Values { return metadataOf(obj, "labels") }

// AnnotationsOf returns the annotations of a manifest without copying them.
func AnnotationsOf(obj *unstructured.Unstructured) Values { return metadataOf(obj, "annotations") }

func metadataOf(obj *unstructured.Unstructured, field string) Values {
	return mapAt(mapAt(obj.Object, "metadata"), field)
}

// labels merges three-way: the union of live and desired, where desired wins, without stale labels.
func labels(desired, live *unstructured.Unstructured, o Options) map[string]string {
	return without(union(live.GetLabels(), desired.GetLabels()), StaleLabels(LabelsOf(desired), live.GetLabels(), o))
}

func annotations(desired, live *unstructured.Unstructured, o Options) map[string]string {
	kind := desired.GroupVersionKind().GroupKind()
	return without(union(live.GetAnnotations(), desired.GetAnnotations()),
		StaleAnnotations(kind, AnnotationsOf(desired), live.GetAnnotations(), o))
}

// Annotations returns the annotations of the merged object.
func Annotations(desired, live *unstructured.Unstructured, o Options) map[string]string {
	return annotations(desired, live, o)
}

func union(base, over map[string]string) map[string]string {
	if base == nil {
		base = map[string]string{}
	}
	for k, v := range over {
		base[k] = v
	}
	return base
}

func without(values map[string]string, keys []string) map[string]string {
	for _, k := range keys {
		delete(values, k)
	}
	if len(values) == 0 {
		return nil
	}
	return values
}

// SameOwners reports whether live owner references are exactly the wanted ones, in whatever order.
func SameOwners(wanted, live []metav1.OwnerReference) bool {
	if len(wanted) != len(live) {
		return false
	}
	for _, w := range wanted {
		if !slices.ContainsFunc(live, func(l metav1.OwnerReference) bool { return sameOwner(w, l) }) {
			return false
		}
	}
	return true
}

func sameOwner(a, b metav1.OwnerReference) bool {
	yes := func(b *bool) bool { return b != nil && *b }
	return a.APIVersion == b.APIVersion && a.Kind == b.Kind && a.Name == b.Name && a.UID == b.UID &&
		yes(a.Controller) == yes(b.Controller) && yes(a.BlockOwnerDeletion) == yes(b.BlockOwnerDeletion)
}

// DeleteOnInvalidUpdate reports whether an object with these annotations is to be deleted when its update is invalid,
// and how. An unknown propagation is an error, and then nothing is to be deleted. A nil propagation is the API server's
// default.
func DeleteOnInvalidUpdate(annotations map[string]string) (
	yes bool, propagation *metav1.DeletionPropagation, err error) {
	yes = resourcesv1alpha1.IsTruthy(annotations[resourcesv1alpha1.DeleteOnInvalidUpdateAnnotation])
	value, set := annotations[resourcesv1alpha1.DeletionPropagationOnInvalidUpdateAnnotation]
	if !set {
		return yes, nil, nil
	}
	switch p := metav1.DeletionPropagation(value); p {
	case metav1.DeletePropagationForeground, metav1.DeletePropagationBackground, metav1.DeletePropagationOrphan:
		return yes, &p, nil
	}
	return yes, nil, fmt.Errorf("annotation %s has the value %q; it has to be Foreground, Background or Orphan",
		resourcesv1alpha1.DeletionPropagationOnInvalidUpdateAnnotation, value)
}
