package extensionvalidation_test

import (
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/trellis-hub/trellis/webhooks/admission"
	"github.com/trellis-hub/trellis/webhooks/extensionvalidation"
)

// Whatever documents look like, they are allowed, not valid, or not understood, and an answer is bounded.
func FuzzHandler(f *testing.F) {
	var kinds []string
	for kind := range minimal {
		kinds = append(kinds, kind)
	}
	slices.Sort(kinds)
	for i, kind := range kinds {
		valid := object(kind, minimal[kind])
		f.Add(uint(i), valid, []byte(nil))
		f.Add(uint(i), valid, object(kind, `{type: b}`))
		for _, odd := range []string{``, `null`, `{}`, `[]`, `{"metadata":null,"spec":null}`, `{"spec":[]}`} {
			f.Add(uint(i), []byte(odd), valid)
		}
	}
	webhook := extensionvalidation.Webhook()
	f.Fuzz(func(t *testing.T, kind uint, document, old []byte) {
		g := NewWithT(t)
		request := &admission.Request{AdmissionRequest: &admissionv1.AdmissionRequest{
			Operation: admissionv1.Create, Name: "x", Namespace: "ns", Object: runtime.RawExtension{Raw: document},
			Kind: metav1.GroupVersionKind{
				Group: "extensions.gardener.cloud", Version: "v1alpha1", Kind: kinds[kind%uint(len(kinds))],
			},
		}}
		if len(old) > 0 {
			request.Operation, request.OldObject.Raw = admissionv1.Update, old
		}
		answer, err := webhook.Handler.Handle(t.Context(), request)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(answer.Patch).To(BeEmpty())
		if answer.Denied == nil {
			return
		}
		g.Expect(answer.Denied.Code).To(BeElementOf(int32(400), int32(422)))
		g.Expect(len(answer.Denied.Message)).To(BeNumerically("<", 16<<10))
		if answer.Denied.Details != nil {
			g.Expect(len(answer.Denied.Details.Causes)).To(BeNumerically("<=", 51))
		}
	})
}
