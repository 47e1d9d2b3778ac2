package managedresource_test

import (
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"

	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-hub/trellis/hack/testbed"
)

// held holds back writes of ConfigMaps in the namespace of a test, so that a run stays in its middle.
type held struct {
	// let is how many writes pass. The others wait for release.
	let     atomic.Int64
	waiting atomic.Int64
	release func()
}

// holdConfigMaps holds back all writes but the first ones to ConfigMaps in a target. It ends with the test at the
// latest.
func (p place) holdConfigMaps(c *testbed.Cluster, let int64) *held {
	p.t.Helper()
	released, probed := make(chan struct{}), atomic.Bool{}
	h := &held{release: sync.OnceFunc(func() { close(released) })}
	h.let.Store(let)
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		review := &admissionv1.AdmissionReview{}
		if err := json.NewDecoder(r.Body).Decode(review); err != nil || review.Request == nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		if ptr.Deref(review.Request.DryRun, false) {
			probed.Store(true)
		} else if h.let.Add(-1) < 0 {
			h.waiting.Add(1)
			select {
			case <-released:
			case <-r.Context().Done():
			}
		}
		review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
		_ = json.NewEncoder(w).Encode(review)
	}))
	hook := &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: p.ns},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: "held.trellis.test",
			ClientConfig: admissionregistrationv1.WebhookClientConfig{
				URL:      &server.URL,
				CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
			},
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": p.ns}},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
			}},
			FailurePolicy:           ptr.To(admissionregistrationv1.Ignore),
			SideEffects:             ptr.To(admissionregistrationv1.SideEffectClassNone),
			TimeoutSeconds:          ptr.To(int32(30)),
			AdmissionReviewVersions: []string{"v1"},
		}},
	}
	p.Expect(c.Client.Create(p.ctx, hook)).To(Succeed())
	p.t.Cleanup(func() {
		h.release()
		_ = c.Client.Delete(p.ctx, hook)
		server.Close()
	})
	p.Eventually(func() bool {
		_ = c.Client.Create(p.ctx, p.configMap("probe"), client.DryRunAll)
		return probed.Load()
	}).Should(BeTrue())
	return h
}

// awaitHeld waits until a number of writes waits.
func (p place) awaitHeld(h *held, n int64) {
	p.t.Helper()
	p.Eventually(h.waiting.Load).Should(BeNumerically(">=", n), func() string { return hub.Log.About(p.ns) })
}
