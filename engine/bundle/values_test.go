package bundle

import (
	"encoding/json"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestValuesHaveTheTypesOfUnstructuredContent(t *testing.T) {
	for value, expected := range map[string]any{
		"1":                                  int64(1),
		"-9223372036854775808":               int64(-1 << 63),
		"9223372036854775807":                int64(1<<63 - 1),
		"9223372036854775808":                float64(1 << 63),
		"1.5":                                1.5,
		"1.0":                                int64(1),
		"1e3":                                int64(1000),
		"0x10":                               int64(16),
		"010":                                int64(8),
		"yes":                                true,
		"Off":                                false,
		`"1"`:                                "1",
		"2001-01-01":                         "2001-01-01",
		"!!timestamp 2001-01-01":             "2001-01-01",
		"!!binary aGVsbG8=":                  "hello",
		"!!binary /w==":                      "\uFFFD",
		"[1, {a: 2}]":                        []any{int64(1), map[string]any{"a": int64(2)}},
		"{1: a, true: b, 2.5: c, x: d}":      map[string]any{"1": "a", "true": "b", "2.5": "c", "x": "d"},
		"{a: 1, a: 2}":                       map[string]any{"a": int64(2)},
		"{a: &x {b: 1}, c: *x}":              map[string]any{"a": map[string]any{"b": int64(1)}, "c": map[string]any{"b": int64(1)}},
		"{a: &x {b: 1}, c: {<<: *x, d: 2}}":  map[string]any{"a": map[string]any{"b": int64(1)}, "c": map[string]any{"b": int64(1), "d": int64(2)}},
		"|\n  first\n  ---\n  second\n":      "first\n---\nsecond\n",
		"{unknownFieldsAre: {not: checked}}": map[string]any{"unknownFieldsAre": map[string]any{"not": "checked"}},
	} {
		t.Run(value, func(t *testing.T) {
			g := NewWithT(t)
			bundle := decodeText("value: " + value)
			g.Expect(faults(bundle)).To(BeEmpty())
			g.Expect(bundle.Objects[0].Object).To(HaveKeyWithValue("value", expected))
			bundle.Objects[0].DeepCopy() // Panics on types that unstructured content must not have.
		})
	}
}

func TestJSONValuesHaveTheTypesOfUnstructuredContent(t *testing.T) {
	for value, expected := range map[string]any{
		"9007199254740993":     int64(9007199254740993),
		"1.5":                  1.5,
		"1e2":                  int64(100),
		"18446744073709551615": float64(1 << 64),
		`"2001-01-01"`:         "2001-01-01",
		`{"a":1,"a":2}`:        map[string]any{"a": int64(2)},
	} {
		t.Run(value, func(t *testing.T) {
			g := NewWithT(t)
			bundle := decodeText(`{"value":` + value + `}`)
			g.Expect(faults(bundle)).To(BeEmpty())
			g.Expect(bundle.Objects[0].Object).To(HaveKeyWithValue("value", expected))
		})
	}
}

// A text of several lines ends with a line feed whether the file does or not, as with kubectl.
func TestTheLastLineIsAWholeOne(t *testing.T) {
	for text, expected := range map[string]string{
		"value: |\n  a\n  b":        "a\nb\n",
		"value: |\n  a\n  b\n":      "a\nb\n",
		"value: |\n  a\n  b\r":      "a\nb\n",
		"value: |-\n  a\n  b":       "a\nb",
		"value: |+\n  a\n  b":       "a\nb\n",
		"value: |+\n  a\n  b\n":     "a\nb\n",
		"value: |+\n  a\n  b\n\n":   "a\nb\n\n",
		"value: >\n  a\n  b":        "a b\n",
		"value: a":                  "a",
		"value: |\n  a\n  # no end": "a\n# no end\n",
	} {
		t.Run(text, func(t *testing.T) {
			g := NewWithT(t)
			for _, text := range []string{text, "---\n" + text} {
				bundle := decodeText(text)
				g.Expect(faults(bundle)).To(BeEmpty())
				g.Expect(bundle.Objects[0].Object).To(HaveKeyWithValue("value", expected))
			}
		})
	}
}

func TestNullIsKept(t *testing.T) {
	g := NewWithT(t)
	for _, text := range []string{"value: ~", "value:", `{"value":null}`} {
		g.Expect(decodeText(text).Objects[0].Object).To(HaveKeyWithValue("value", BeNil()))
	}
}

func TestYAMLAliasesDoNotShareContent(t *testing.T) {
	g := NewWithT(t)
	object := decodeText("a: &x {list: [1]}\nb: *x").Objects[0].Object
	g.Expect(unstructured.SetNestedField(object, "changed", "a", "list")).To(Succeed())
	g.Expect(object["b"]).To(Equal(map[string]any{"list": []any{int64(1)}}))
}

func TestValuesSurviveJSON(t *testing.T) {
	g := NewWithT(t)
	object := decodeText("a: [1, 2.5, text, true, null, {b: 1e30}]").Objects[0].Object
	_, err := json.Marshal(object)
	g.Expect(err).NotTo(HaveOccurred())
}
