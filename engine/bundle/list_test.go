package bundle

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/utils/clock"
)

// described returns type and name of the objects of a bundle.
func described(b *Bundle) []string {
	var out []string
	for _, o := range b.Objects {
		out = append(out, o.GetAPIVersion()+" "+o.GetKind()+" "+o.GetName())
	}
	return out
}

func TestListsStandForTheirItems(t *testing.T) {
	const a, b = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}", "{apiVersion: v1, kind: Secret, metadata: {name: b}}"
	const json = `{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}]}`
	for name, test := range map[string]struct {
		text    string
		objects []string
	}{
		"a List":            {"apiVersion: v1\nkind: List\nitems: [" + a + ", " + b + "]", []string{"v1 ConfigMap a", "v1 Secret b"}},
		"a List with marks": {"apiVersion: v1\nkind: List\nmetadata: {name: x, resourceVersion: ''}\nitems: [" + a + "]", []string{"v1 ConfigMap a"}},
		"a List in JSON":    {json + json, []string{"v1 ConfigMap a", "v1 ConfigMap a"}},
		"items with a type of their own": {
			"apiVersion: v1\nkind: ConfigMapList\nitems: [" + a + ", " + b + "]", []string{"v1 ConfigMap a", "v1 Secret b"}},
		"items without a type": {
			"apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleList\nitems: [{metadata: {name: a}, rules: []}]",
			[]string{"rbac.authorization.k8s.io/v1 Role a"}},
		"items without a type in JSON": {`{"apiVersion":"v1","kind":"SecretList","items":[{"metadata":{"name":"a"}}]}`, []string{"v1 Secret a"}},
		"a list of custom resources":   {"apiVersion: example.org/v1\nkind: FooList\nitems: [{metadata: {name: a}}]", []string{"example.org/v1 Foo a"}},
		"lists in a list": {
			"apiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: List, items: [" + a + "]}, {apiVersion: v1, kind: SecretList, items: [{metadata: {name: b}}]}]",
			[]string{"v1 ConfigMap a", "v1 Secret b"}},
		"items that refer to others": {"apiVersion: v1\nkind: List\nitems: [&x {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}, *x]",
			[]string{"v1 ConfigMap a", "v1 ConfigMap a"}},
		"no items":   {"apiVersion: v1\nkind: List\nitems: []", nil},
		"null items": {"apiVersion: v1\nkind: RoleList\nitems:", nil},
		"an object of a kind that ends in List": {
			"apiVersion: example.org/v1\nkind: AllowList\nmetadata: {name: a}\nitems: [" + b + "]", []string{"example.org/v1 AllowList a"}},
		"an object of a kind that does not end in List": {
			"apiVersion: example.org/v1\nkind: Menu\nmetadata: {name: a}\nitems: [" + b + "]", []string{"example.org/v1 Menu a"}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			bundle := decodeText(test.text)
			g.Expect(faults(bundle)).To(BeEmpty())
			g.Expect(described(bundle)).To(Equal(test.objects))
			for _, o := range bundle.Objects {
				g.Expect(o.Invalid()).To(Succeed())
			}
		})
	}
}

func TestItemsHavePositions(t *testing.T) {
	g := NewWithT(t)
	text := configMap("a") + "---\napiVersion: v1\nkind: ConfigMapList\nitems:\n- {metadata: {name: b}}\n- 7\n" +
		"- {apiVersion: v1, kind: List, items: []}\n- {apiVersion: v1, kind: ConfigMapList, items: [{metadata: {name: c}}]}\n- {metadata: {name: d, labels: {x: 1}}}\n" +
		"---\napiVersion: v1\nkind: List\nitems: []\n---\n" + configMap("e")
	// The second time, what was read before is used.
	cache := NewCache(1<<20, Limits{}, clock.RealClock{})
	for _, bundle := range []*Bundle{decodeText(text), cache.Decode([]Source{secret("data.yaml", text)})} {
		var positions []string
		for _, o := range bundle.Objects {
			positions = append(positions, o.GetName()+": "+o.String())
		}
		const where = " of key data.yaml in Secret garden/addons"
		g.Expect(positions).To(Equal([]string{
			"a: document 1" + where, "b: item 1 of document 2" + where, "c: item 4 of document 2" + where,
			"d: item 5 of document 2" + where, "e: document 4" + where,
		}))
		g.Expect(faults(bundle)).To(Equal([]string{"item 2 of document 2" + where + ": not an object but a number"}))
		g.Expect(bundle.Objects[3].Invalid()).To(MatchError(HavePrefix("item 5 of document 2" + where)))
	}
}

func TestListsAreSharedAsOtherDocumentsAre(t *testing.T) {
	g := NewWithT(t)
	cache := NewCache(1<<20, Limits{}, clock.RealClock{})
	list := "apiVersion: v1\nkind: ConfigMapList\nitems: [{metadata: {name: a}}, {metadata: {name: b}}]\n---\n"
	one := cache.Decode([]Source{secret("data.yaml", list+configMap("c"))})
	other := cache.Decode([]Source{secret("data.yaml", list+configMap("d"))})
	g.Expect(names(other)).To(Equal([]string{"a", "b", "d"}))
	g.Expect(other.Objects[1].Unstructured).To(BeIdenticalTo(one.Objects[1].Unstructured))
	g.Expect(other.Objects[1].Position).To(Equal(one.Objects[1].Position))
	g.Expect(other.Objects[2].Index).To(Equal(2))
}

func TestListsThatCannotBeRead(t *testing.T) {
	for name, test := range map[string]struct{ text, fault string }{
		"items that are a map":       {"apiVersion: v1\nkind: List\nitems: {hunter2: x}", "document 1 of key data.yaml in Secret garden/addons: its items are not a list"},
		"items that are a text":      {"apiVersion: v1\nkind: RoleList\nitems: hunter2", "document 1 of key data.yaml in Secret garden/addons: its items are not a list"},
		"an item that is a text":     {"apiVersion: v1\nkind: List\nitems: [hunter2]", "item 1 of document 1 of key data.yaml in Secret garden/addons: not an object but a string"},
		"an item that is nothing":    {"apiVersion: v1\nkind: List\nitems: [~]", "item 1 of document 1 of key data.yaml in Secret garden/addons: not an object but nothing"},
		"an item without a name":     {"apiVersion: v1\nkind: RoleList\nitems: [{metadata: {}}]", "item 1 of document 1 of key data.yaml in Secret garden/addons: the object has no metadata.name"},
		"a list of lists of texts":   {"apiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: List, items: 1}]", "item 1 of document 1 of key data.yaml in Secret garden/addons: its items are not a list"},
		"a List without items":       {"apiVersion: v1\nkind: List", "document 1 of key data.yaml in Secret garden/addons: the list has no items, and the object no metadata.name"},
		"a kind of list with a typo": {"apiVersion: v1\nkind: ConfigMapList\nitem: []", "document 1 of key data.yaml in Secret garden/addons: the list has no items, and the object no metadata.name"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			bundle := decodeText(test.text + "\n---\n" + configMap("a"))
			g.Expect(faults(bundle)).To(Equal([]string{test.fault}))
			g.Expect(names(bundle)).To(Equal([]string{"a"}), "the rest is read")
			g.Expect(bundle.Complete()).To(BeFalse())
		})
	}
}

// nested is a list that is as many levels deep.
func nested(levels int) string {
	return strings.Repeat("{apiVersion: v1, kind: List, items: [", levels) + "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}" + strings.Repeat("]}", levels)
}

func TestW20_ListsAreBoundedAsDocumentsAre(t *testing.T) {
	items := func(n int) string {
		return "apiVersion: v1\nkind: ConfigMapList\nitems:\n" + strings.Repeat("- metadata: {name: a}\n", n)
	}
	large := "apiVersion: v1\nkind: ConfigMapList\nitems:\n- &x {metadata: {name: a}, data: {a: " + strings.Repeat("x", 2<<20) + "}}\n"
	for name, test := range map[string]struct {
		text string
		err  error // nil if it is within the bounds
	}{
		"many items":                      {items(10_000), nil},
		"too many items":                  {items(10_001), errTooManyDocuments},
		"too many items of several lists": {items(5_000) + "---\n" + items(5_001), errTooManyDocuments},
		"too many lists without items": {"apiVersion: v1\nkind: List\nitems: [" +
			strings.Repeat("{kind: List, apiVersion: v1, items: []},", 10_001) + "]", errTooManyDocuments},
		"as deep as it may be": {nested(127), nil},
		"too deep":             {nested(128), errTooDeep},
		"too deep without any item": {strings.Repeat("{apiVersion: v1, kind: List, items: [", 3000) +
			strings.Repeat("]}", 3000), errTooDeep},
		"an item that is deep as a part of the list only": {"apiVersion: v1\nkind: ConfigMapList\nitems: [{metadata: {name: a}, data: " + strings.Repeat("[", 254) + strings.Repeat("]", 254) + "}]", errTooDeep},
		"an item too large": {large + "- {metadata: {name: b}, data: {a: [*x, *x]}}",
			errDocumentTooLarge},
		"too much memory": {large + strings.Repeat("- *x\n", 30), ErrTooManyBytes},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			bundle := decodeText(test.text)
			if test.err == nil {
				g.Expect(faults(bundle)).To(BeEmpty())
				return
			}
			g.Expect(bundle.Faults).To(HaveLen(1))
			g.Expect(errors.Is(bundle.Faults[0].Err, test.err)).To(BeTrue(), bundle.Faults[0].String())
		})
	}
}

func TestItemsCountAgainstTheLimitsWhenTheyAreKnown(t *testing.T) {
	g := NewWithT(t)
	cache := NewCache(1<<20, Limits{Documents: 3}, clock.RealClock{})
	list := func(n int) string {
		return "apiVersion: v1\nkind: ConfigMapList\nitems: [" + strings.Repeat("{metadata: {name: a}},", n) + "]\n---\n"
	}
	g.Expect(cache.Decode([]Source{secret("data.yaml", list(3))}).Complete()).To(BeTrue())
	bundle := cache.Decode([]Source{secret("data.yaml", configMap("b")+"---\n"+list(3))})
	g.Expect(names(bundle)).To(Equal([]string{"b", "a", "a"}))
	g.Expect(fmt.Sprint(faults(bundle))).To(ContainSubstring("item 3 of document 2 of key data.yaml in Secret garden/addons: the ManagedResource has too many documents"))
}
