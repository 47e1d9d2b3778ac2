package manifest_test

import (
	"encoding/json"
	"maps"
	"math"
	"sync"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/trellis-hub/trellis/engine/manifest"
)

func content() map[string]any {
	return map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "immutable": true, "count": int64(3), "none": nil, "a \"<name>\" & more": "b",
		"metadata": map[string]any{"name": "a"},
		"data":     map[string]any{"z": "<b>", "a": "é\u2028"},
		"list":     []any{"a", int64(1), 1.5, nil, map[string]any{}},
		"nothing":  []any{}, "null": map[string]any(nil), "nil": []any(nil),
	}
}

func TestTextIsThatOfJSON(t *testing.T) {
	for name, change := range map[string]func(object map[string]any){
		"as it is": func(map[string]any) {},
		"other metadata": func(o map[string]any) {
			o["metadata"] = map[string]any{"name": "a", "labels": map[string]any{"b": "c"}}
		},
		"a field less":             func(o map[string]any) { delete(o, "data") },
		"a field more":             func(o map[string]any) { o["more"] = map[string]any{"a": int64(1)} },
		"another map":              func(o map[string]any) { o["data"] = map[string]any{"z": "other"} },
		"another list":             func(o map[string]any) { o["list"] = []any{"b", int64(1), 1.5, nil, map[string]any{}} },
		"a shorter list":           func(o map[string]any) { list, _ := o["list"].([]any); o["list"] = list[:2] },
		"no list":                  func(o map[string]any) { o["list"] = nil },
		"nothing instead of null":  func(o map[string]any) { o["null"], o["nil"] = map[string]any{}, []any{} },
		"null instead of nothing":  func(o map[string]any) { o["nothing"] = []any(nil) },
		"another text":             func(o map[string]any) { o["kind"] = "Secret" },
		"a text instead of a map":  func(o map[string]any) { o["data"] = "text" },
		"a map instead of a text":  func(o map[string]any) { o["kind"] = map[string]any{} },
		"a number instead of true": func(o map[string]any) { o["immutable"] = int64(1) },
		"empty":                    func(o map[string]any) { clear(o) },
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			original := content()
			object := maps.Clone(original)
			change(object)
			want, err := json.Marshal(object)
			g.Expect(err).NotTo(HaveOccurred())

			for _, text := range []*manifest.Text{manifest.TextOf(original), nil} {
				got, err := text.Append([]byte("x"), object)
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(string(got)).To(Equal("x" + string(want)))
			}
			g.Expect(original).To(Equal(content()))
		})
	}
}

func TestWhatIsTheSameIsNotEncodedAgain(t *testing.T) {
	g := NewWithT(t)
	original := content()
	text := manifest.TextOf(original)
	_, err := text.Append(nil, original)
	g.Expect(err).NotTo(HaveOccurred())
	data, _ := original["data"].(map[string]any)
	data["z"] = "changed although it must not be"

	got, err := text.Append(nil, original)

	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(got)).NotTo(ContainSubstring("changed"))
}

func TestWhatCannotBeEncodedIsAnError(t *testing.T) {
	g := NewWithT(t)
	object := map[string]any{"a": "b", "number": []any{math.NaN()}}
	for _, text := range []*manifest.Text{manifest.TextOf(object), nil} {
		_, err := text.Append(nil, object)
		g.Expect(err).To(MatchError(ContainSubstring(`field "number"`)))
	}
}

func TestTextIsUsedByMany(t *testing.T) {
	g := NewWithT(t)
	original := content()
	want, err := json.Marshal(original)
	g.Expect(err).NotTo(HaveOccurred())
	text := manifest.TextOf(original)
	var group sync.WaitGroup
	for range 10 {
		group.Go(func() {
			if got, err := text.Append(nil, maps.Clone(original)); err != nil || string(got) != string(want) {
				t.Error(string(got), err)
			}
		})
	}
	group.Wait()
}
