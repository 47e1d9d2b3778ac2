package webhooks

import (
	"context"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// Webhook changes objects that are created or updated.
type Webhook struct {
	// Name is that of the configuration, like a domain of three parts.
	Name string
	// Rule and the selectors say for which objects it is called. Nil: for all.
	Rule                              admissionregistrationv1.Rule
	ObjectSelector, NamespaceSelector *metav1.LabelSelector
	// Mutate returns an object, in JSON, as it is to be.
	Mutate func(ctx context.Context, object []byte) ([]byte, error)
	// Probe is an object that it is called for. It is created in dry runs only, to know when the API server calls.
	Probe client.Object
}

// Serve has an API server call a webhook until the test ends. It returns when that is so. What fails is rejected.
func Serve(t *testing.T, in client.Client, w Webhook) {
	t.Helper()
	g := NewWithT(t)
	var calls atomic.Int64
	server := httptest.NewTLSServer(&admission.Webhook{Handler: admission.HandlerFunc(
		func(ctx context.Context, request admission.Request) admission.Response {
			calls.Add(1)
			object, err := w.Mutate(ctx, request.Object.Raw)
			if err != nil {
				return admission.Errored(http.StatusInternalServerError, err)
			}
			return admission.PatchResponseFromRaw(request.Object.Raw, object)
		})})
	t.Cleanup(server.Close)

	configuration := w.configuration(server)
	g.Expect(in.Create(t.Context(), configuration)).To(Succeed())
	// An API server takes a while to know of a configuration, or that it is gone.
	called := func(g Gomega) bool {
		before := calls.Load()
		probe, _ := w.Probe.DeepCopyObject().(client.Object)
		g.Expect(in.Create(context.Background(), probe, client.DryRunAll)).To(Succeed())
		return calls.Load() > before
	}
	t.Cleanup(func() {
		g.Expect(in.Delete(context.Background(), configuration)).To(Succeed())
		g.Eventually(called).Should(BeFalse())
	})
	g.Eventually(called).Should(BeTrue())
}

func (w *Webhook) configuration(server *httptest.Server) *admissionregistrationv1.MutatingWebhookConfiguration {
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	return &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: w.Name},
		Webhooks: []admissionregistrationv1.MutatingWebhook{{
			Name:         w.Name,
			ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: ptr.To(server.URL), CABundle: authority},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{
					admissionregistrationv1.Create, admissionregistrationv1.Update,
				},
				Rule: w.Rule,
			}},
			ObjectSelector: w.ObjectSelector, NamespaceSelector: w.NamespaceSelector,
			FailurePolicy:  ptr.To(admissionregistrationv1.Fail),
			SideEffects:    ptr.To(admissionregistrationv1.SideEffectClassNone),
			TimeoutSeconds: ptr.To[int32](30), AdmissionReviewVersions: []string{"v1"},
		}},
	}
}
