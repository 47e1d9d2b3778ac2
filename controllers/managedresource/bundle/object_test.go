package bundle

import (
	"testing"

	. "github.com/onsi/gomega"
)

// MR-4 of the specification expects ApplyFailed for such documents, hence they must decode.
func TestInvalidObjectsDecodeAndSayWhatIsWrong(t *testing.T) {
	for text, problem := range map[string]string{
		"kind: ConfigMap\nmetadata: {name: a}":                           "has no apiVersion",
		"apiVersion: v1\nmetadata: {name: a}":                            "has no kind",
		"apiVersion: v1\nkind: ConfigMap":                                "has no metadata.name",
		"apiVersion: v1\nkind: ConfigMap\nmetadata:":                     "has no metadata.name",
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {generateName: a}":   "has no metadata.name",
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: ''}":          "has no metadata.name",
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: 1}":           "has a metadata.name that is not a string",
		"apiVersion: v1\nkind: ConfigMap\nmetadata: text":                "has a metadata that is not a map",
		"apiVersion: 1\nkind: ConfigMap\nmetadata: {name: a}":            "has a apiVersion that is not a string",
		"apiVersion: a/b/c\nkind: ConfigMap\nmetadata: {name: a}":        "has an apiVersion that is not of the form version or group/version",
		"apiVersion: v1\nkind: X\nmetadata: {name: a, namespace: 1}":     "has a metadata.namespace that is not a string",
		"apiVersion: v1\nkind: X\nmetadata: {name: a, labels: {b: 1}}":   "has a value in metadata.labels that is not a string (quote it): b",
		"apiVersion: v1\nkind: X\nmetadata: {name: a, labels: [b]}":      "has metadata.labels that are not a map",
		"apiVersion: v1\nkind: X\nmetadata: {name: a, annotations: {b}}": "has a value in metadata.annotations that is not a string (quote it): b",
	} {
		t.Run(text, func(t *testing.T) {
			g := NewWithT(t)
			bundle := decodeText("---\n" + configMap("fine") + "---\n" + text)
			g.Expect(faults(bundle)).To(BeEmpty())
			g.Expect(bundle.Objects[0].Invalid()).To(Succeed())
			g.Expect(bundle.Objects[1].Invalid()).To(MatchError("document 2 of key data.yaml in Secret garden/addons " + problem))
		})
	}
}

func TestValidObjects(t *testing.T) {
	for _, text := range []string{
		configMap("a"),
		"apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a, namespace: b, labels: {c: d}, annotations: }",
		"apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a, namespace: , labels: }",
	} {
		t.Run(text, func(t *testing.T) {
			NewWithT(t).Expect(decodeText(text).Objects[0].Invalid()).To(Succeed())
		})
	}
}
