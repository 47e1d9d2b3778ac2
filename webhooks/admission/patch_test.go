package admission_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"

	"github.com/trellis-hub/trellis/webhooks/admission"
)

// thing is a type that knows some fields of an object.
type thing struct {
	Name   string            `json:"name"`
	Always struct{}          `json:"always"`
	Labels map[string]string `json:"labels,omitempty"`
	Number *int64            `json:"number,omitempty"`
	Parts  []part            `json:"parts,omitempty"`
	Words  []string          `json:"words,omitempty"`
	Never  []string          `json:"never"`
}

type part struct {
	Name  string `json:"name,omitempty"`
	Value string `json:"value,omitempty"`
	Inner *part  `json:"inner,omitempty"`
}

func TestPatch(t *testing.T) {
	for name, test := range map[string]struct {
		raw    string
		change func(*thing)
		want   string
		ops    int
	}{
		"nothing": {`{"name": "a", "x": 1}`, func(*thing) {}, `{"name": "a", "x": 1}`, 0},
		"a field": {`{"name": "a", "x": 1}`, func(o *thing) { o.Name = "b" }, `{"name": "b", "x": 1}`, 1},
		"a key that has to be escaped": {`{"labels": {"a/b~c": "d"}}`, func(o *thing) { o.Labels["a/b~c"] = "e" },
			`{"labels": {"a/b~c": "e"}}`, 1},
		"a map that was not there": {`{}`, func(o *thing) { o.Labels = map[string]string{"a": "b"} },
			`{"labels": {"a": "b"}}`, 1},
		"a map that was null": {`{"labels": null}`, func(o *thing) { o.Labels = map[string]string{"a": "b"} },
			`{"labels": {"a": "b"}}`, 1},
		"a field that goes": {`{"number": 5, "x": {"number": 5}}`, func(o *thing) { o.Number = nil },
			`{"x": {"number": 5}}`, 1},
		"a large number": {`{"number": 9007199254740993}`, func(o *thing) { *o.Number += 2 },
			`{"number": 9007199254740995}`, 1},
		"a field within a part": {`{"parts": [{"name": "a", "x": 1, "inner": {"y": 2}}]}`,
			func(o *thing) { o.Parts[0].Inner.Value = "z" },
			`{"parts": [{"name": "a", "x": 1, "inner": {"y": 2, "value": "z"}}]}`, 1},
		"a part at the beginning": {`{"parts": [{"name": "a", "x": 1}, {"name": "b", "x": 2}]}`,
			func(o *thing) { o.Parts = append([]part{{Name: "c"}}, o.Parts...) },
			`{"parts": [{"name": "c"}, {"name": "a", "x": 1}, {"name": "b", "x": 2}]}`, 1},
		"a part that goes": {`{"parts": [{"name": "a", "x": 1}, {"name": "b", "x": 2}, {"name": "c", "x": 3}]}`,
			func(o *thing) { o.Parts = append(o.Parts[:1], o.Parts[2]) },
			`{"parts": [{"name": "a", "x": 1}, {"name": "c", "x": 3}]}`, 1},
		"parts that change their order": {`{"parts": [{"name": "a", "x": 1}, {"name": "b", "x": 2}, {"name": "c", "x": 3}]}`,
			func(o *thing) { o.Parts = []part{o.Parts[1], o.Parts[2], {Name: "a", Value: "new"}} },
			`{"parts": [{"name": "b", "x": 2}, {"name": "c", "x": 3}, {"name": "a", "value": "new", "x": 1}]}`, 3},
		"parts of the same name that change their order": {
			`{"parts": [{"name": "a", "value": "1", "x": 1}, {"name": "a", "value": "2", "x": 2}, {"name": "b", "x": 3},
				{"name": "c", "x": 4}, {"name": "d", "x": 5}]}`,
			func(o *thing) { o.Parts = append(o.Parts[2:], o.Parts[:2]...) },
			`{"parts": [{"name": "b", "x": 3}, {"name": "c", "x": 4}, {"name": "d", "x": 5},
				{"name": "a", "value": "1", "x": 1}, {"name": "a", "value": "2", "x": 2}]}`, 4},
		"parts without names": {`{"parts": [{"value": "a", "x": 1}, {"value": "b", "x": 2}]}`,
			func(o *thing) { o.Parts[1].Value = "c" }, `{"parts": [{"value": "a", "x": 1}, {"value": "c", "x": 2}]}`, 1},
		"one more part of the same name": {`{"parts": [{"name": "a", "x": 1}]}`,
			func(o *thing) { o.Parts = append(o.Parts, part{Name: "a", Value: "b"}) },
			`{"parts": [{"name": "a", "x": 1}, {"name": "a", "value": "b"}]}`, 1},
		"words": {`{"words": ["a", "b", "c"]}`, func(o *thing) { o.Words = []string{"c", "d"} },
			`{"words": ["c", "d"]}`, 3},
		"all parts go": {`{"parts": [{"x": 1}]}`, func(o *thing) { o.Parts = nil }, `{}`, 1},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			var before, after thing
			g.Expect(json.Unmarshal([]byte(test.raw), &before)).To(Succeed())
			g.Expect(json.Unmarshal([]byte(test.raw), &after)).To(Succeed())
			test.change(&after)
			patch, err := admission.Patch([]byte(test.raw), before, after)
			g.Expect(err).NotTo(HaveOccurred())
			if test.ops == 0 {
				g.Expect(patch).To(BeEmpty())
				return
			}
			decoded, err := jsonpatch.DecodePatch(patch)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(decoded).To(HaveLen(test.ops), string(patch))
			got, err := decoded.Apply([]byte(test.raw))
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(got).To(MatchJSON(test.want))
		})
	}
}

func TestPatchOfALargeListThatIsReversed(t *testing.T) {
	g := NewWithT(t)
	var before, after thing
	for i := range 2000 {
		before.Words = append(before.Words, fmt.Sprint(i))
		after.Words = append(after.Words, fmt.Sprint(1999-i))
	}
	raw, err := json.Marshal(before)
	g.Expect(err).NotTo(HaveOccurred())
	patch, err := admission.Patch(raw, before, after)
	g.Expect(err).NotTo(HaveOccurred())
	decoded, err := jsonpatch.DecodePatch(patch)
	g.Expect(err).NotTo(HaveOccurred())
	got, err := decoded.Apply(raw)
	g.Expect(err).NotTo(HaveOccurred())
	want, err := json.Marshal(after)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(got).To(MatchJSON(want))
}

// FuzzPatch makes one list of another, whatever is in both.
func FuzzPatch(f *testing.F) {
	f.Add("a,b,c", "c,a")
	f.Add("a,a,b", "b,a,a,b")
	f.Add("", "x")
	f.Add("~,/,~1", "/")
	f.Fuzz(func(t *testing.T, from, to string) {
		if len(from)+len(to) > 1000 {
			return
		}
		g := NewWithT(t)
		var before, after thing
		for i, list := range []string{from, to} {
			o := []*thing{&before, &after}[i]
			o.Labels = map[string]string{}
			for _, word := range strings.Split(strings.ToValidUTF8(list, ""), ",") {
				o.Words = append(o.Words, word)
				o.Parts = append(o.Parts, part{Name: word, Value: list})
				o.Labels[word] = list
			}
		}
		raw, err := json.Marshal(before)
		g.Expect(err).NotTo(HaveOccurred())
		want, err := json.Marshal(after)
		g.Expect(err).NotTo(HaveOccurred())
		patch, err := admission.Patch(raw, before, after)
		g.Expect(err).NotTo(HaveOccurred())
		if len(patch) == 0 {
			g.Expect(raw).To(MatchJSON(want))
			return
		}
		decoded, err := jsonpatch.DecodePatch(patch)
		g.Expect(err).NotTo(HaveOccurred())
		got, err := decoded.Apply(raw)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(got).To(MatchJSON(want))
	})
}
