package diff

import (
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	raw, err := yaml.YAMLToJSON([]byte(text))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	NewWithT(t).Expect(u.UnmarshalJSON(raw)).To(Succeed())
	return u
}

func TestCompare(t *testing.T) {
	for name, test := range map[string]struct {
		before, after string
		fields        []Field
	}{
		"equal": {"a: 1", "a: 1", nil},
		"what servers set is no difference": {
			"metadata: {name: x, resourceVersion: '1', uid: a, generation: 1, managedFields: []}\nstatus: {a: 1}",
			"metadata: {name: x, resourceVersion: '2', uid: b, generation: 2}\nstatus: {a: 2}", nil,
		},
		"the description is no difference": {"metadata: {annotations: {resources.gardener.cloud/description: x}}", "metadata: {annotations: {resources.gardener.cloud/description: y}}", nil},
		"a value":                          {"spec: {replicas: 1}", "spec: {replicas: 2}", []Field{{"spec.replicas", int64(1), int64(2)}}},
		"added and removed":                {"a: {b: 1}", "a: {c: 2}", []Field{{"a.b", int64(1), nil}, {"a.c", nil, int64(2)}}},
		"a whole map":                      {"a: {}", "a: {b: {c: 1, d: 2}}", []Field{{"a.b.c", nil, int64(1)}, {"a.b.d", nil, int64(2)}}},
		"an empty map and none are one":    {"a: {}", "{}", nil},
		"labels":                           {"metadata: {labels: {a.b/c: x}}", "metadata: {labels: {a.b/c: z}}", []Field{{"metadata.labels[a.b/c]", "x", "z"}}},
		"items by name":                    {"l: [{name: a, v: 1}, {name: b, v: 1}]", "l: [{name: b, v: 2}, {name: a, v: 1}]", []Field{{"l[b].v", int64(1), int64(2)}}},
		"an item more":                     {"l: [{name: a}]", "l: [{name: a}, {name: b}]", []Field{{"l[b]", nil, map[string]any{"name": "b"}}}},
		"items by position":                {"l: [a, b]", "l: [a, c, d]", []Field{{"l[1]", "b", "c"}, {"l[2]", nil, "d"}}},
		"an item at the beginning":         {"l: [a, b]", "l: [x, a, b]", []Field{{"l[0]", nil, "x"}}},
		"an item in the middle":            {"l: [{a: 1}, {b: 1}]", "l: [{a: 1}, {c: 1}, {b: 1}]", []Field{{"l[1]", nil, map[string]any{"c": int64(1)}}}},
		"an item less":                     {"l: [a, b, c]", "l: [b, c]", []Field{{"l[0]", "a", nil}}},
		"an item changed behind a new one": {"l: [a, {v: 1, w: 1}, c]", "l: [x, a, {v: 2, w: 1}, c]", []Field{{"l[0]", nil, "x"}, {"l[2].v", int64(1), int64(2)}}},
		"an item moved":                    {"l: [a, b, c]", "l: [c, a, b]", []Field{{"l[0]", nil, "c"}, {"l[2]", "c", nil}}},
		"equal items":                      {"l: [a, a, a]", "l: [a, a]", []Field{{"l[2]", "a", nil}}},
		"items with one name":              {"l: [{name: a, v: 1}, {name: a, v: 2}]", "l: [{name: a, v: 1}, {name: a, v: 3}]", []Field{{"l[1].v", int64(2), int64(3)}}},
		"another type":                     {"a: {b: 1}", "a: x", []Field{{"a", map[string]any{"b": int64(1)}, "x"}}},
		"a value of a Secret":              {"kind: Secret\ndata: {a: Z2VoZWlt}", "kind: Secret\ndata: {a: YW5kZXJzLA==}", []Field{{"data.a", "(hidden, 6 bytes)", "(hidden, 7 bytes)"}}},
		"all values of a Secret":           {"kind: Secret", "kind: Secret\ndata: {a: Z2VoZWlt}", []Field{{"data.a", nil, "(hidden, 6 bytes)"}}},
		"what kubectl noted of a Secret":   {"kind: Secret\nmetadata: {annotations: {kubectl.kubernetes.io/last-applied-configuration: geheim}}", "kind: Secret", []Field{{"metadata.annotations[kubectl.kubernetes.io/last-applied-configuration]", "(hidden, 6 bytes)", nil}}},
	} {
		t.Run(name, func(t *testing.T) {
			kind := "kind: ConfigMap\n"
			if strings.HasPrefix(test.before, "kind:") {
				kind = ""
			}
			fields := Compare(object(t, kind+flow(test.before)), object(t, kind+flow(test.after)))
			NewWithT(t).Expect(fields).To(Equal(test.fields))
		})
	}
}

// Rules of roles are an atomic list without names: adding one at the beginning changes none of the others.
func TestARuleMoreIsOneChange(t *testing.T) {
	rule := func(resource string) string { return "{apiGroups: [''], resources: [" + resource + "], verbs: [get]}" }
	role := func(rules ...string) *unstructured.Unstructured {
		return object(t, "kind: Role\nrules: ["+strings.Join(rules, ", ")+"]")
	}
	fields := Compare(role(rule("pods"), rule("secrets")), role(rule("nodes"), rule("pods"), rule("secrets")))
	NewWithT(t).Expect(fields).To(ConsistOf(And(HaveField("Path", "rules[0]"), HaveField("From", BeNil()), HaveField("To", HaveKeyWithValue("resources", []any{"nodes"})))))
}

func TestLongListsAreComparedByPosition(t *testing.T) {
	long := func(first string) map[string]any {
		list := []any{first}
		for i := range 2000 {
			list = append(list, fmt.Sprint(i))
		}
		return map[string]any{"kind": "ConfigMap", "l": list}
	}
	fields := Compare(&unstructured.Unstructured{Object: long("a")}, &unstructured.Unstructured{Object: long("b")})
	NewWithT(t).Expect(fields).To(Equal([]Field{{"l[0]", "a", "b"}}))
}

// flow makes a document that can stand behind others of one that is written in braces.
func flow(text string) string {
	if text == "{}" {
		return ""
	}
	return text
}
