package inventory

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/untrusted"
)

// Key identifies an object within a target. The API version is not part of it, so an object that moves to another
// version of its group stays the same object.
type Key struct {
	Group, Kind, Namespace, Name string
}

// KeyOf returns the key of an inventory entry.
func KeyOf(ref resourcesv1alpha1.ObjectReference) Key {
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil {
		// Entries that we or GRM wrote can be parsed; one that a user wrote must still be distinct from others.
		gv = schema.GroupVersion{Group: ref.APIVersion}
	}
	return Key{Group: gv.Group, Kind: ref.Kind, Namespace: ref.Namespace, Name: ref.Name}
}

// KeyOfObject returns the key of an object.
func KeyOfObject(obj *unstructured.Unstructured) Key {
	gvk := obj.GroupVersionKind()
	return Key{Group: gvk.Group, Kind: gvk.Kind, Namespace: obj.GetNamespace(), Name: obj.GetName()}
}

// GroupKind is the kind of the object.
func (k Key) GroupKind() schema.GroupKind { return schema.GroupKind{Group: k.Group, Kind: k.Kind} }

// NamespacedName is the object's name without its kind.
func (k Key) NamespacedName() types.NamespacedName {
	return types.NamespacedName{Namespace: k.Namespace, Name: k.Name}
}

// String renders the key for people: kind with group, and the name with its namespace where it has one. It is bounded,
// since an inventory that was not written by the hub may have any names.
func (k Key) String() string {
	return untrusted.Name(k.GroupKind().String()) + " " + untrusted.Text(k.objectName(), 2*untrusted.MaxName+1)
}

func (k Key) objectName() string {
	if k.Namespace == "" {
		return k.Name
	}
	return k.Namespace + "/" + k.Name
}

// Compare orders keys as the inventory is sorted: by the string group/kind/namespace/name, in which an empty namespace
// counts as "default" unless the kind is Namespace.
func (k Key) Compare(other Key) int { return cmp.Compare(k.sortString(), other.sortString()) }

func (k Key) sortString() string {
	ns := k.Namespace
	if ns == "" && k.Kind != "Namespace" {
		ns = "default"
	}
	return strings.Join([]string{k.Group, k.Kind, ns, k.Name}, "/")
}

// Describe names an object as messages do that consumers match: apiVersion/kind/namespace/name.
func Describe(ref resourcesv1alpha1.ObjectReference) string {
	return strings.Join([]string{ref.APIVersion, ref.Kind, ref.Namespace, ref.Name}, "/")
}

// Sort orders an inventory in place.
func Sort(refs []resourcesv1alpha1.ObjectReference) {
	slices.SortStableFunc(refs, func(a, b resourcesv1alpha1.ObjectReference) int { return KeyOf(a).Compare(KeyOf(b)) })
}

// Entry builds the inventory entry of a desired object. Its labels and annotations are those of the manifest, the base
// of later three-way merges.
func Entry(obj *unstructured.Unstructured, labels, annotations map[string]string) resourcesv1alpha1.ObjectReference {
	return resourcesv1alpha1.ObjectReference{
		ObjectReference: corev1.ObjectReference{
			APIVersion: obj.GetAPIVersion(), Kind: obj.GetKind(), Namespace: obj.GetNamespace(), Name: obj.GetName(),
		},
		Labels:      labels,
		Annotations: annotations,
	}
}

// Index maps an inventory by key. Of duplicates, which a foreign writer may leave, the first one counts.
func Index(refs []resourcesv1alpha1.ObjectReference) map[Key]*resourcesv1alpha1.ObjectReference {
	out := make(map[Key]*resourcesv1alpha1.ObjectReference, len(refs))
	for i := range refs {
		if k := KeyOf(refs[i]); out[k] == nil {
			out[k] = &refs[i]
		}
	}
	return out
}

// Union returns the sorted inventory that may exist once the desired objects are written on top of the old ones.
// Entries that exist keep what they have: UID, labels and annotations.
func Union(old, desired []resourcesv1alpha1.ObjectReference) []resourcesv1alpha1.ObjectReference {
	out := slices.Clone(old)
	known := Index(old)
	for _, ref := range desired {
		if known[KeyOf(ref)] == nil {
			out = append(out, ref)
		}
	}
	Sort(out)
	return out
}

// Without returns the entries whose keys are not in the set, in order.
func Without(refs []resourcesv1alpha1.ObjectReference, keys map[Key]bool) []resourcesv1alpha1.ObjectReference {
	return slices.DeleteFunc(slices.Clone(refs), func(r resourcesv1alpha1.ObjectReference) bool { return keys[KeyOf(r)] })
}
