package inventory_test

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/engine/inventory"
)

func TestMR33_Equivalences(t *testing.T) {
	kinds := func(pairs ...string) []metav1.GroupKind {
		var out []metav1.GroupKind
		for i := 0; i < len(pairs); i += 2 {
			out = append(out, metav1.GroupKind{Group: pairs[i], Kind: pairs[i+1]})
		}
		return out
	}
	for name, c := range map[string]struct {
		additional  [][]metav1.GroupKind
		group, kind string
		others      []schema.GroupKind
	}{
		"workloads moved to apps":    {nil, "apps", "StatefulSet", []schema.GroupKind{{Group: "extensions", Kind: "StatefulSet"}}},
		"networking moved, too":      {nil, "extensions", "Ingress", []schema.GroupKind{{Group: "networking.k8s.io", Kind: "Ingress"}}},
		"groups do not mix kinds":    {nil, "apps", "Ingress", nil},
		"other kinds have none":      {nil, "", "ConfigMap", nil},
		"a list of the user":         {[][]metav1.GroupKind{kinds("a", "X", "b", "X")}, "a", "X", []schema.GroupKind{{Group: "b", Kind: "X"}}},
		"lists that share no member": {[][]metav1.GroupKind{kinds("a", "X", "b", "X"), kinds("a", "Y", "b", "Y")}, "b", "Y", []schema.GroupKind{{Group: "a", Kind: "Y"}}},
		"a list that overlaps the defaults joins them": {
			[][]metav1.GroupKind{kinds("mine", "Deployment", "apps", "Deployment")}, "extensions", "Deployment",
			[]schema.GroupKind{{Group: "apps", Kind: "Deployment"}, {Group: "mine", Kind: "Deployment"}},
		},
		"of two overlaps the first decides, and other sets are not merged": {
			[][]metav1.GroupKind{kinds("a", "X", "b", "X"), kinds("c", "X", "d", "X"), kinds("d", "X", "a", "X")}, "a", "X",
			[]schema.GroupKind{{Group: "c", Kind: "X"}, {Group: "d", Kind: "X"}},
		},
		"a member that moved to another set is not found from its old one": {
			[][]metav1.GroupKind{kinds("a", "X", "b", "X"), kinds("c", "X", "d", "X"), kinds("d", "X", "a", "X")}, "b", "X",
			[]schema.GroupKind{{Group: "a", Kind: "X"}},
		},
		"one named twice is one": {[][]metav1.GroupKind{kinds("a", "X", "a", "X", "b", "X")}, "b", "X", []schema.GroupKind{{Group: "a", Kind: "X"}}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			g.Expect(inventory.NewEquivalences(c.additional...).Of(schema.GroupKind{Group: c.group, Kind: c.kind})).To(ConsistOf(c.others))
		})
	}
}

func TestMR33_EntryIsFoundUnderAnEquivalentKind(t *testing.T) {
	g := NewWithT(t)
	lookup := inventory.NewLookup([]resourcesv1alpha1.ObjectReference{
		ref("extensions/v1beta1", "Deployment", "a", "old"), ref("extensions/v1beta1", "Deployment", "a", "both"), ref("apps/v1", "Deployment", "a", "both"),
	}, inventory.NewEquivalences())
	find := func(namespace, name string) *resourcesv1alpha1.ObjectReference {
		return lookup.Find(inventory.Key{Group: "apps", Kind: "Deployment", Namespace: namespace, Name: name})
	}
	g.Expect(find("a", "old").APIVersion).To(Equal("extensions/v1beta1"))
	g.Expect(find("a", "both").APIVersion).To(Equal("apps/v1"), "the exact kind comes first")
	g.Expect(find("b", "old")).To(BeNil())
	g.Expect(find("a", "other")).To(BeNil())
	g.Expect(inventory.NewLookup(nil, inventory.Equivalences{}).Find(inventory.Key{Kind: "X"})).To(BeNil())
}

// A hub that stops between writing an entry ahead and applying the object leaves two entries of one object.
func TestObjectThatMovesToAnotherKindHasTwoEntries(t *testing.T) {
	g := NewWithT(t)
	ref := func(apiVersion, uid string) resourcesv1alpha1.ObjectReference {
		out := resourcesv1alpha1.ObjectReference{Labels: map[string]string{"of": apiVersion}}
		out.APIVersion, out.Kind, out.Name, out.UID = apiVersion, "Deployment", "a", types.UID(uid)
		return out
	}
	old, moved := ref("extensions/v1beta1", "1"), ref("apps/v1", "")
	before := []resourcesv1alpha1.ObjectReference{old}
	ahead := inventory.Union(before, inventory.NewLookup(before, inventory.NewEquivalences()).Inherit(
		[]resourcesv1alpha1.ObjectReference{moved}))
	g.Expect(moved.UID).To(BeEmpty(), "what was given is not changed")
	moved.UID, moved.Labels = old.UID, old.Labels
	g.Expect(ahead).To(ConsistOf(old, moved))

	names := func(refs []*resourcesv1alpha1.ObjectReference) []string {
		var out []string
		for _, r := range refs {
			out = append(out, r.APIVersion)
		}
		return out
	}
	apps, extensions := inventory.KeyOf(moved), inventory.KeyOf(old)
	lookup := inventory.NewLookup(ahead, inventory.NewEquivalences())
	g.Expect(names(lookup.Same(apps))).To(Equal([]string{"apps/v1", "extensions/v1beta1"}))
	g.Expect(names(lookup.Same(extensions))).To(Equal([]string{"extensions/v1beta1", "apps/v1"}))
	moved.UID = "2" // two objects that were always listed side by side
	lookup = inventory.NewLookup([]resourcesv1alpha1.ObjectReference{old, moved}, inventory.NewEquivalences())
	g.Expect(names(lookup.Same(apps))).To(Equal([]string{"apps/v1"}))
	g.Expect(names(lookup.Same(extensions))).To(Equal([]string{"extensions/v1beta1"}))
}
