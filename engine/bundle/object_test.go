package bundle

import (
	"testing"

	. "github.com/onsi/gomega"
)

// MR-4: such documents end with ApplyFailed, so they must decode.
func TestInvalidObjectsDecodeAndSayWhatIsWrong(t *testing.T) {
	for text, problem := range map[string]string{
		"kind: ConfigMap\nmetadata: {name: a}":                           "has no apiVersion",
		"apiVersion: v1\nmetadata: {name: a}":                            "has no kind",
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

// Without a name it is not known which object is meant, so no applied object may be deleted because of it.
func TestObjectsWithoutANameAreFaults(t *testing.T) {
	const generated = "the object has metadata.generateName instead of metadata.name: name it, for every apply would make one more object"
	for text, fault := range map[string]string{
		"apiVersion: v1\nkind: ConfigMap":                                        "the object has no metadata.name",
		"apiVersion: v1\nkind: ConfigMap\nmetadata:":                             "the object has no metadata.name",
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: ''}":                  "the object has no metadata.name",
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: , namespace: a}":      "the object has no metadata.name",
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {generateName: a}":           generated,
		"apiVersion: v1\nkind: ConfigMapList\nmetadata: {generateName: a}":       generated,
		`{"apiVersion":"batch/v1","kind":"Job","metadata":{"generateName":"a"}}`: generated,
	} {
		t.Run(text, func(t *testing.T) {
			g := NewWithT(t)
			bundle := decodeText(configMap("fine") + "---\n" + text)
			g.Expect(faults(bundle)).To(Equal([]string{"document 2 of key data.yaml in Secret garden/addons: " + fault}))
			g.Expect(names(bundle)).To(Equal([]string{"fine"}))
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
