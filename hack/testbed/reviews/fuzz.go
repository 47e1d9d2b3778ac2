package reviews

import (
	"encoding/json"
	"testing"

	. "github.com/onsi/gomega"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/trellis-hub/trellis/webhooks/admission"
)

// Fuzz sends random documents to a webhook, beginning with some objects in YAML. It must not panic, and a patch has to
// fit the document. The kind of a request is that of the first object.
func (c Target) Fuzz(f *testing.F, w admission.Webhook, objects ...string) {
	f.Helper()
	kind := c.Request(f, objects[0]).Kind
	for _, object := range objects {
		raw, err := yaml.YAMLToJSON([]byte(object))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	for _, odd := range []string{``, `null`, `{}`, `[]`, `{"metadata":null,"spec":null}`, `{"spec":{"template":null}}`} {
		f.Add([]byte(odd))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		g := NewWithT(t)
		request := &admission.Request{
			Target: c.Key, Settings: c.Settings, State: c.State, AdmissionRequest: &admissionv1.AdmissionRequest{
				Operation: admissionv1.Update, Namespace: metav1.NamespaceSystem, Kind: kind,
				Object: runtime.RawExtension{Raw: raw},
			},
		}
		if c.Namespace != "" {
			request.Namespace = c.Namespace
		}
		response, err := w.Handler.Handle(t.Context(), request)
		if err != nil || response.Denied != nil {
			g.Expect(response.Patch).To(BeEmpty())
			return
		}
		if len(response.Patch) == 0 || !json.Valid(raw) {
			return
		}
		patch, err := jsonpatch.DecodePatch(response.Patch)
		g.Expect(err).NotTo(HaveOccurred())
		request.Object.Raw, err = patch.Apply(raw)
		g.Expect(err).NotTo(HaveOccurred(), "%s of %s", response.Patch, raw)
		_, err = w.Handler.Handle(t.Context(), request)
		g.Expect(err).NotTo(HaveOccurred())
	})
}
