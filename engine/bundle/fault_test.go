package bundle

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

func TestFaultsNameTheDocumentAndTheRestIsRead(t *testing.T) {
	a, b := configMap("a"), configMap("b")
	jsonA := `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}`

	for name, test := range map[string]struct {
		text  string
		fault string
		names []string
	}{
		"broken YAML": {
			a + "---\nkind: [\n---\n" + b,
			"document 2 of key data.yaml in Secret garden/addons: not valid YAML: line 8: did not find expected node content",
			[]string{"a", "b"},
		},
		"plain text": {
			"this is no manifest\n---\n" + b,
			"document 1 of key data.yaml in Secret garden/addons: not an object but a string",
			[]string{"b"},
		},
		"a list": {
			"- 1\n---\n" + b,
			"document 1 of key data.yaml in Secret garden/addons: not an object but a list",
			[]string{"b"},
		},
		"a number": {
			a + "---\n7",
			"document 2 of key data.yaml in Secret garden/addons: not an object but a number",
			[]string{"a"},
		},
		"binary data": {
			"\x00\x01\x02",
			"document 1 of key data.yaml in Secret garden/addons: not valid YAML: control characters are not allowed",
			nil,
		},
		"JSON followed by garbage": {
			jsonA + jsonA + "garbage",
			"document 3 of key data.yaml in Secret garden/addons: not valid JSON: line 1: unexpected character",
			[]string{"a", "a"},
		},
		"JSON followed by garbage on another line": {
			"---\n" + jsonA + "\n\n}\n---\n" + b,
			"document 2 of key data.yaml in Secret garden/addons: not valid JSON: line 4: unexpected character",
			[]string{"a", "b"},
		},
		"JSON followed by a truncated object": {
			jsonA + `{"apiVersion":"v1",`,
			"document 2 of key data.yaml in Secret garden/addons: not valid JSON: the document ends early",
			[]string{"a"},
		},
		"truncated JSON": {
			`{"apiVersion":"v1",`,
			"document 1 of key data.yaml in Secret garden/addons: not valid YAML: line 1: did not find expected node content",
			nil,
		},
		"a JSON list": {
			`{}[1]`,
			"document 2 of key data.yaml in Secret garden/addons: not an object but a list",
			[]string{""},
		},
		"a JSON number out of range": {
			`{"a":1e999}`,
			"document 1 of key data.yaml in Secret garden/addons: not valid JSON: a number is out of range",
			nil,
		},
		"infinity": {
			"a: .inf",
			"document 1 of key data.yaml in Secret garden/addons: infinity and not-a-number cannot be written as JSON",
			nil,
		},
		"a key that is null": {
			"{~: 1}",
			"document 1 of key data.yaml in Secret garden/addons: a key of a map is not a string, number or boolean",
			nil,
		},
		"keys that become equal": {
			`{1: a, "1": b}`,
			"document 1 of key data.yaml in Secret garden/addons: two keys of a map differ in YAML, but not in JSON (quote them)",
			nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			bundle := decodeText(test.text)
			g.Expect(faults(bundle)).To(Equal([]string{test.fault}))
			g.Expect(names(bundle)).To(Equal(test.names))
			g.Expect(bundle.Complete()).To(BeFalse())
		})
	}
}

func TestFaultsNeverQuoteTheContent(t *testing.T) {
	for name, text := range map[string]string{
		"unknown anchor":       "password: *hunter2",
		"recursive anchor":     "password: &hunter2 [*hunter2]",
		"value unfit for tag":  "password: !!int hunter2",
		"value unfit for time": "password: !!timestamp hunter2",
		"map as a key":         "{? {hunter2: hunter2} : x}",
		"list as a key":        "{? [hunter2] : x}",
		"unknown tag":          "password: !hunter2!x y",
		"unknown directive":    "%hunter2 x\n",
		"missing colon":        "a: b\nhunter2\nc: d",
		"bad escape":           `a: "\hunter2"`,
		"bad base64":           "a: !!binary hunter2!",
		"unclosed quote":       `a: "hunter2`,
		"colon in a value":     "password: hunter2: hunter2",
		"tab":                  "a:\n\thunter2: 1",
		"plain text":           "hunter2",
		"merge of a scalar":    "<<: hunter2",
		"JSON":                 `{"a": 1} hunter2`,
		"JSON with a number":   `{"a": 1e999, "b": "hunter2"}`,
		"broken JSON":          `{"password": "hunter2" hunter2}`,
		"a value of odd type":  "{hunter2: .nan}",
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			bundle := decodeText(text)
			g.Expect(bundle.Faults).To(HaveLen(1))
			g.Expect(bundle.Faults[0].String()).NotTo(ContainSubstring("hunter"))
			g.Expect(bundle.Faults[0].String()).NotTo(ContainSubstring("\n"))
		})
	}
}

func TestFaultMessageIsBounded(t *testing.T) {
	g := NewWithT(t)
	bundle := decodeText(strings.Repeat("- x\n---\n", 30))
	g.Expect(strings.Split(bundle.FaultMessage(), "\n")).To(And(HaveLen(11), ContainElement("and 20 more")))

	bundle = decodeText("- x\n---\n- y")
	g.Expect(bundle.FaultMessage()).To(Equal(
		"document 1 of key data.yaml in Secret garden/addons: not an object but a list\n" +
			"document 2 of key data.yaml in Secret garden/addons: not an object but a list"))
}
