package bundle

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

func TestDecodeReadsEveryForm(t *testing.T) {
	a, b := configMap("a"), configMap("b")
	jsonA := `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}`
	jsonB := `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"b"}}`

	for name, text := range map[string]string{
		"YAML documents":                          a + "---\n" + b,
		"YAML with a leading separator":           "---\n" + a + "---\n" + b + "---\n",
		"YAML with a comment on the separator":    a + "--- # next\n" + b,
		"YAML with blanks behind the separator":   a + "---  \t\n" + b,
		"YAML with content on the separator line": a + "--- {apiVersion: v1, kind: ConfigMap, metadata: {name: b}}\n",
		"YAML with document end markers":          a + "...\n---\n" + b + "...\n",
		"YAML with Windows line ends":             strings.ReplaceAll(a+"---\n"+b, "\n", "\r\n"),
		"YAML with a byte order mark":             "\xef\xbb\xbf" + a + "---\n" + b,
		"YAML with maps in braces":                "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n---\n" + b,
		"JSON objects one after the other":        jsonA + jsonB,
		"JSON objects on lines":                   jsonA + "\n" + jsonB + "\n",
		"JSON documents with separators":          jsonA + "\n---\n" + jsonB + "\n---\n",
		"JSON and YAML mixed":                     jsonA + "\n---\n" + b,
		"JSON behind blank lines":                 "\n \n" + jsonA + "\n" + jsonB,
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			bundle := decodeText(text)
			g.Expect(faults(bundle)).To(BeEmpty())
			g.Expect(names(bundle)).To(Equal([]string{"a", "b"}))
			g.Expect(bundle.Complete()).To(BeTrue())
		})
	}
}

func TestDecodeOrdersBySecretKeyAndDocument(t *testing.T) {
	g := NewWithT(t)
	first := secret("b.yaml", configMap("b1")+"---\n"+configMap("b2"), "a.yaml", configMap("a"), "B.yaml", configMap("B"))
	second := secret("a.yaml", configMap("z"))
	second.Name = "more"

	bundle := Decode([]Source{first, second}, Limits{})

	g.Expect(names(bundle)).To(Equal([]string{"B", "a", "b1", "b2", "z"}))
	g.Expect(bundle.Objects[3].Position).To(Equal(Position{"garden", "addons", "b.yaml", 2, 0}))
	g.Expect(bundle.Objects[4].String()).To(Equal("document 1 of key a.yaml in Secret garden/more"))
}

func TestDecodeCountsEmptyDocuments(t *testing.T) {
	g := NewWithT(t)
	bundle := decodeText("# only a comment\n---\nnull\n---\n\n---\n---\n" + configMap("a"))

	g.Expect(bundle.Complete()).To(BeTrue())
	g.Expect(bundle.Objects).To(HaveLen(1))
	g.Expect(bundle.Objects[0].Index).To(Equal(4), "nothing at all between two separators is no document")
}

func TestDecodeWithoutContentIsComplete(t *testing.T) {
	for name, sources := range map[string][]Source{
		"no Secret":            nil,
		"a Secret without key": {secret()},
		"an empty value":       {secret("data.yaml", "")},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			bundle := Decode(sources, Limits{})
			g.Expect(bundle.Complete()).To(BeTrue())
			g.Expect(bundle.Objects).To(BeEmpty())
			g.Expect(bundle.FaultMessage()).To(BeEmpty())
		})
	}
}

func TestDecodeMarksModeIgnore(t *testing.T) {
	for annotations, ignored := range map[string]bool{
		"{resources.gardener.cloud/mode: Ignore}":       true,
		"{resources.gardener.cloud/mode: Ignore, n: 1}": true,
		"{resources.gardener.cloud/mode: ignore}":       false,
		"{resources.gardener.cloud/mode: true}":         false,
		"{}":                                            false,
		"text":                                          false,
	} {
		t.Run(annotations, func(t *testing.T) {
			g := NewWithT(t)
			bundle := decodeText("metadata:\n  annotations: " + annotations)
			g.Expect(bundle.Objects).To(HaveLen(1))
			g.Expect(bundle.Objects[0].ModeIgnore).To(Equal(ignored))
		})
	}
}

func TestDecodeDoesNotChangeItsInput(t *testing.T) {
	g := NewWithT(t)
	text := configMap("a")
	source := secret("data.yaml", text)
	bundle := Decode([]Source{source}, Limits{})

	copied := bundle.Objects[0].DeepCopy()
	copied.SetName("other")
	g.Expect(string(source.Data["data.yaml"])).To(Equal(text))
	g.Expect(bundle.Objects[0].GetName()).To(Equal("a"))
}
