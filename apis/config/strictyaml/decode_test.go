package strictyaml_test

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/trellis-hub/trellis/apis/config/strictyaml"
)

type inlined struct {
	Enabled *bool `json:"enabled"`
}

type file struct {
	Name   string           `json:"name"`
	Period *metav1.Duration `json:"period"`
	Below  *struct {
		inlined `json:",inline"`

		Labels map[string]string `json:"labels"`
	} `json:"below"`
	List []inlined `json:"list"`
}

var keys = strictyaml.Keys{
	Synonyms: map[string]string{"beneath": "below"},
	Foreign:  map[string]string{"below.workers": "there are none"},
}

func TestDecode(t *testing.T) {
	g := NewWithT(t)
	var f file
	lines, faults, err := strictyaml.Decode([]byte(`
name: a
period: 1m
beneath:
  enabled: true
  labels: {a/b: c}
list:
- enabled: false
`), &f, keys)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(faults).To(BeEmpty())
	g.Expect(f.Name).To(Equal("a"))
	g.Expect(f.Period.Minutes()).To(BeEquivalentTo(1))
	g.Expect(*f.Below.Enabled).To(BeTrue())
	g.Expect(f.Below.Labels).To(Equal(map[string]string{"a/b": "c"}))
	g.Expect(f.List).To(HaveLen(1))
	g.Expect(lines).To(Equal(strictyaml.Lines{
		"name": 2, "period": 3, "beneath": 4, "beneath.enabled": 5, "beneath.labels": 6, "beneath.labels.a/b": 6, "list": 7,
		"list[0].enabled": 8,
	}))
}

func TestFaults(t *testing.T) {
	for name, test := range map[string]struct{ input, says string }{
		"an unknown key": {"nam: a", `nam: Forbidden: unknown key (line 1); the nearest known one is "name"`},
		"a foreign key": {"below: {workers: 1}",
			"below.workers: Forbidden: this key of gardener-resource-manager is not supported (line 1): there are none"},
		"below a synonym":    {"beneath: {workers: 1}", "beneath.workers: Forbidden: this key of gardener-resource-manager"},
		"a key twice":        {"name: a\nname: b", "name: Duplicate value"},
		"two names of a key": {"below: {}\nbeneath: {}", "beneath: Duplicate value"},
		"a number for a text": {"name: 1",
			"name: Invalid value: \"1\": must be a string; put it in quotes if it looks like something else (line 1)"},
		"a list for a text": {"name: []", "name: Invalid value: \"a list\": must be a single value (line 1)"},
		"a bad duration":    {"period: 1", "period: Invalid value: \"1\": must be a duration"},
		"an alias":          {"name: &a b\nlist: *a", "name: Forbidden: anchors and aliases are not supported (line 1)"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			_, faults, err := strictyaml.Decode([]byte(test.input), &file{}, keys)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(faults.ToAggregate()).To(MatchError(ContainSubstring(test.says)))
		})
	}
}

func TestWhatIsNoMapping(t *testing.T) {
	for input, says := range map[string]string{
		"": "it is empty", "[]": "but is a list", "a": "but is a single value", "a: b\n---\na: b": "more than one document",
		"a: [": "yaml: ", strings.Repeat("[", 20_000): "exceeded max depth",
	} {
		_, _, err := strictyaml.Decode([]byte(input), &file{}, keys)
		NewWithT(t).Expect(err).To(MatchError(ContainSubstring(says)))
	}
}
