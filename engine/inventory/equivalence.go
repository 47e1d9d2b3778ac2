package inventory

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
)

// Equivalences are sets of kinds that name the same objects, so that an object is not deleted when its manifest moves
// from one kind to another. The zero value is empty; NewEquivalences includes the equivalent kinds of Kubernetes
// itself.
type Equivalences struct {
	sets map[schema.GroupKind]*[]schema.GroupKind
}

// NewEquivalences returns the default sets extended by additional ones. A set with a known member joins the set of the
// first such member; all its members then belong to that set alone.
func NewEquivalences(additional ...[]metav1.GroupKind) Equivalences {
	e := Equivalences{sets: map[schema.GroupKind]*[]schema.GroupKind{}}
	for kind, group := range map[string]string{
		"Deployment": "apps", "DaemonSet": "apps", "ReplicaSet": "apps", "StatefulSet": "apps",
		"Ingress": "networking.k8s.io", "NetworkPolicy": "networking.k8s.io",
	} {
		e.add([]schema.GroupKind{{Group: "extensions", Kind: kind}, {Group: group, Kind: kind}})
	}
	for _, set := range additional {
		members := make([]schema.GroupKind, 0, len(set))
		for _, gk := range set {
			members = append(members, schema.GroupKind{Group: gk.Group, Kind: gk.Kind})
		}
		e.add(members)
	}
	return e
}

func (e Equivalences) add(members []schema.GroupKind) {
	var set *[]schema.GroupKind
	for _, gk := range members {
		if set = e.sets[gk]; set != nil {
			break
		}
	}
	if set == nil {
		set = &[]schema.GroupKind{}
	}
	for _, gk := range members {
		if e.sets[gk] != set {
			*set = append(*set, gk)
			e.sets[gk] = set
		}
	}
}

// Of returns the other kinds of the set that a kind belongs to.
func (e Equivalences) Of(gk schema.GroupKind) []schema.GroupKind {
	set := e.sets[gk]
	if set == nil {
		return nil
	}
	others := make([]schema.GroupKind, 0, len(*set))
	for _, other := range *set {
		if other != gk {
			others = append(others, other)
		}
	}
	return others
}

// Lookup finds the entries of an inventory by key, under any of the equivalent kinds.
type Lookup struct {
	entries      map[Key]*resourcesv1alpha1.ObjectReference
	equivalences Equivalences
}

// NewLookup returns a Lookup in an inventory.
func NewLookup(refs []resourcesv1alpha1.ObjectReference, equivalences Equivalences) Lookup {
	return Lookup{entries: Index(refs), equivalences: equivalences}
}

// Find returns the entry with the key, or else that of the same object under an equivalent kind; nil if there is
// neither.
func (l Lookup) Find(key Key) *resourcesv1alpha1.ObjectReference {
	if same := l.Same(key); len(same) > 0 {
		return same[0]
	}
	return nil
}

// Same returns the entries of one object, the one that Find returns first. There are several while an object moves from
// one kind to another: the new entry is written ahead of the object, with the UID that the old one has (Inherit).
// Entries of equivalent kinds with other UIDs are other objects.
func (l Lookup) Same(key Key) []*resourcesv1alpha1.ObjectReference {
	var same []*resourcesv1alpha1.ObjectReference
	take := func(k Key) {
		if ref := l.entries[k]; ref != nil && (len(same) == 0 || same[0].UID == ref.UID) {
			same = append(same, ref)
		}
	}
	take(key)
	for _, gk := range l.equivalences.Of(key.GroupKind()) {
		other := key
		other.Group, other.Kind = gk.Group, gk.Kind
		take(other)
	}
	return same
}

// Inherit returns entries for objects that are about to be applied, with the UID, labels and annotations of their
// existing entries.
func (l Lookup) Inherit(refs []resourcesv1alpha1.ObjectReference) []resourcesv1alpha1.ObjectReference {
	out := slices.Clone(refs)
	for i := range out {
		if known := l.Find(KeyOf(out[i])); known != nil {
			out[i].UID, out[i].Labels, out[i].Annotations = known.UID, known.Labels, known.Annotations
		}
	}
	return out
}
