package reviews

import (
	"encoding/json"
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/yaml"

	"github.com/trellis-hub/trellis/webhooks/admission"
)

// unknownField is a field that no type has.
const unknownField = "fieldOfTheFuture"

// ofUsers are the objects whose fields are not those of a type.
var ofUsers = map[string]bool{
	"labels": true, "annotations": true, "nodeSelector": true, "matchLabels": true, "data": true, "requests": true,
	"limits": true,
}

// KeepsUnknownFields sends an object with a field in every part of it that no type has, and expects that they are all
// where they were, and that the webhook does the same as without them.
func (c Target) KeepsUnknownFields(t testing.TB, w admission.Webhook, object string) {
	t.Helper()
	g := NewWithT(t)
	var tree map[string]any
	g.Expect(yaml.Unmarshal([]byte(object), &tree)).To(Succeed())
	places := map[string]bool{}
	addUnknown(tree, "", places)
	g.Expect(len(places)).To(BeNumerically(">", 1))
	with, err := json.Marshal(tree)
	g.Expect(err).NotTo(HaveOccurred())

	answer := c.Send(t, w, string(with))
	g.Expect(answer.Err).NotTo(HaveOccurred())
	g.Expect(answer.Denied).To(BeNil())
	g.Expect(answer.Patch).NotTo(BeEmpty())
	var result map[string]any
	g.Expect(json.Unmarshal(answer.Object, &result)).To(Succeed())
	removeUnknown(result, places)
	g.Expect(places).To(BeEmpty(), "gone")
	without, err := json.Marshal(result)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(without).To(MatchJSON(c.Send(t, w, object).Object))
}

// addUnknown adds the field, with the path as its value, to all parts of an object.
func addUnknown(value any, path string, places map[string]bool) {
	switch value := value.(type) {
	case map[string]any:
		for key, below := range value {
			if !ofUsers[key] {
				addUnknown(below, path+"/"+key, places)
			}
		}
		value[unknownField], places[path] = path, true
	case []any:
		for i, below := range value {
			addUnknown(below, fmt.Sprintf("%s/%d", path, i), places)
		}
	}
}

// removeUnknown removes the field, and the places that it finds.
func removeUnknown(value any, places map[string]bool) {
	switch value := value.(type) {
	case map[string]any:
		if path, is := value[unknownField].(string); is {
			delete(places, path)
			delete(value, unknownField)
		}
		for _, below := range value {
			removeUnknown(below, places)
		}
	case []any:
		for _, below := range value {
			removeUnknown(below, places)
		}
	}
}
