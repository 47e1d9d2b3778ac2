package deletionprotection_test

import (
	"encoding/json"
	"strconv"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/trellis-hub/trellis/webhooks/deletionprotection"
)

// What is allowed to be deleted by its name is confirmed, whatever a document looks like.
func FuzzHandler(f *testing.F) {
	const annotation = `{"metadata":{"annotations":{"` + deletionprotection.ConfirmationAnnotation + `":"`
	for _, document := range []string{
		``, `null`, `{}`, `[]`, `{"metadata":null}`, `{"metadata":{"annotations":null}}`, annotation + `true"}}}`,
		annotation + `T"}}}`, annotation + `yes"}}}`, annotation + `1"}},"metadata":{}}`, `{"METADATA":{}}`, `[[[]]]`,
	} {
		f.Add([]byte(document), "x")
		f.Add([]byte(document), "")
	}
	f.Fuzz(func(t *testing.T, document []byte, name string) {
		g := NewWithT(t)
		webhook := deletionprotection.Webhook(&lister{objects: []metav1.PartialObjectMetadata{named("x", "no")}})
		request := deletion(infrastructures)
		request.Name, request.OldObject = name, runtime.RawExtension{Raw: document}
		answer, err := webhook.Handler.Handle(t.Context(), request)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(answer.Patch).To(BeEmpty())
		if answer.Denied != nil {
			g.Expect(answer.Denied.Code).To(BeElementOf(int32(403), int32(500)))
			g.Expect(len(answer.Denied.Message)).To(BeNumerically("<", 4<<10))
			return
		}
		g.Expect(name).NotTo(BeEmpty(), "a collection with an object that is not confirmed")
		var object metav1.PartialObjectMetadata
		g.Expect(json.Unmarshal(document, &object)).To(Succeed())
		g.Expect(strconv.ParseBool(object.Annotations[deletionprotection.ConfirmationAnnotation])).To(BeTrue())
	})
}
