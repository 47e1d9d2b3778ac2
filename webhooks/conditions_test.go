package webhooks_test

import (
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/trellis-hub/trellis/hack/controlplane"
	"github.com/trellis-hub/trellis/hack/testbed/reviews"
	"github.com/trellis-hub/trellis/webhooks"
	"github.com/trellis-hub/trellis/webhooks/admission"
)

// handlers answers an API server by the handlers of the target ofSamples, and remembers which were called.
type handlers struct {
	t        *testing.T
	webhooks []admission.Webhook
	target   reviews.Target

	mu     sync.Mutex
	called []string
}

func (h *handlers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var review admissionv1.AdmissionReview
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil || review.Request == nil {
		http.Error(w, "no review", http.StatusBadRequest)
		return
	}
	for _, webhook := range h.webhooks {
		if "/"+webhook.Path != r.URL.Path {
			continue
		}
		h.mu.Lock()
		h.called = append(h.called, webhook.Name)
		h.mu.Unlock()
		answer, err := webhook.Handler.Handle(r.Context(), h.request(review.Request))
		if err != nil || answer.Denied != nil {
			http.Error(w, "no answer", http.StatusInternalServerError)
			return
		}
		review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
		if len(answer.Patch) > 0 {
			review.Response.Patch, review.Response.PatchType = answer.Patch, ptr.To(admissionv1.PatchTypeJSONPatch)
		}
		review.Request = nil
		if err := json.NewEncoder(w).Encode(&review); err != nil {
			h.t.Error(err)
		}
	}
}

// calls returns which were called since it was asked the last time.
func (h *handlers) calls() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	called := h.called
	h.called = nil
	return called
}

func (h *handlers) request(received *admissionv1.AdmissionRequest) *admission.Request {
	return &admission.Request{Settings: h.target.Settings, State: h.target.State, AdmissionRequest: received}
}

// register has an API server call webhooks for the objects that meet a requirement on their labels.
func (h *handlers) register(client kubernetes.Interface, name string, requirements ...admission.Requirement) {
	t := h.t
	t.Helper()
	server := httptest.NewTLSServer(h)
	t.Cleanup(server.Close)
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	configuration := &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, w := range h.webhooks {
		if w.Validating || !w.Enabled(&h.target.Settings) {
			continue
		}
		for _, e := range w.Entries(&h.target.Settings) {
			e.ObjectSelector = admission.Selector(e.ObjectSelector.MatchExpressions, requirements)
			configuration.Webhooks = append(configuration.Webhooks, admissionregistrationv1.MutatingWebhook{
				Name: e.Name + ".webhooks.example.com", Rules: e.Rules, FailurePolicy: ptr.To(admissionregistrationv1.Fail),
				MatchPolicy: &e.MatchPolicy, TimeoutSeconds: ptr.To[int32](30), MatchConditions: e.MatchConditions,
				NamespaceSelector: &e.NamespaceSelector, ObjectSelector: &e.ObjectSelector,
				SideEffects:             ptr.To(admissionregistrationv1.SideEffectClassNone),
				AdmissionReviewVersions: []string{"v1"},
				ClientConfig: admissionregistrationv1.WebhookClientConfig{
					URL: ptr.To(server.URL + "/" + w.Path), CABundle: authority,
				},
			})
		}
	}
	_, err := client.AdmissionregistrationV1().MutatingWebhookConfigurations().Create(t.Context(), configuration,
		metav1.CreateOptions{})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
}

// TestHUB23_ConditionsSuppressNoCallThatIsNeeded creates pods on a real API server. What it makes of one with the
// conditions has to be what all handlers leave as it is.
func TestHUB23_ConditionsSuppressNoCallThatIsNeeded(t *testing.T) {
	g := NewWithT(t)
	client, err := kubernetes.NewForConfig(controlplane.StartForTest(t, controlplane.Options{}).RESTConfig())
	g.Expect(err).NotTo(HaveOccurred())
	h := &handlers{t: t, webhooks: webhooks.All(nil), target: ofSamples(t)}
	_, err = client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: h.target.Namespace, Labels: h.target.Labels},
	}, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	h.register(client, "test")

	create := func(g Gomega, pod *corev1.Pod) *corev1.Pod {
		h.calls()
		made, err := client.CoreV1().Pods(h.target.Namespace).Create(t.Context(), pod,
			metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		g.Expect(err).NotTo(HaveOccurred())
		return made
	}
	plain := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "a-"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "a"}}},
	}
	// An API server takes a while to know of a configuration.
	g.Eventually(func(g Gomega) { create(g, plain); g.Expect(h.calls()).NotTo(BeEmpty()) }).Should(Succeed())

	for name, test := range map[string]struct {
		metadata, spec string
		// spared are those that the API server does not have to call.
		spared []string
	}{
		"nothing is said": {"", "", []string{"projected-token-mount", "pod-kube-apiserver-load-balancing",
			"pod-topology-spread-constraints"}},
		"the default ServiceAccount": {"", "serviceAccountName: default", []string{"projected-token-mount"}},
		"a ServiceAccount":           {"", "serviceAccountName: a", nil},
		"no token": {"", "serviceAccountName: a, automountServiceAccountToken: false",
			[]string{"projected-token-mount"}},
		"a token": {"",
			"serviceAccountName: a, automountServiceAccountToken: true, volumes: [{name: a, emptyDir: {}}]", nil},
		"a token of its own": {"",
			"serviceAccountName: a, volumes: [{name: b, emptyDir: {}}, {name: kube-api-access-x, emptyDir: {}}]",
			[]string{"projected-token-mount"}},
		"another scheduler":         {"", "schedulerName: a", []string{"pod-scheduler-name"}},
		"the default scheduler":     {"", "schedulerName: default-scheduler", nil},
		"an empty security context": {"", "securityContext: {}", nil},
		"another security context":  {"", "securityContext: {runAsUser: 5}", nil},
		"a seccomp profile": {"", "securityContext: {seccompProfile: {type: Unconfined}}",
			[]string{"seccomp-profile"}},
		"the generic kubeconfig": {"",
			"volumes: [{name: a, emptyDir: {}}, {name: b, secret: {secretName: generic-token-kubeconfig}}]", nil},
		"a projected generic kubeconfig": {"",
			"volumes: [{name: b, projected: {sources: [{configMap: {name: x}}, {secret: {name: generic-token-kubeconfig}}]}}]",
			nil},
		"other volumes": {"", "volumes: [{name: a, secret: {secretName: x}}, {name: b, projected: {sources: [{secret: " +
			"{name: x}}]}}, {name: c, projected: {}}]",
			[]string{"pod-kube-apiserver-load-balancing"}},
		"of a DaemonSet": {"ownerReferences: [{apiVersion: apps/v1, kind: DaemonSet, name: a, uid: b, controller: true}]", "",
			[]string{"system-components-config"}},
		"of a DaemonSet that does not control it": {
			"ownerReferences: [{apiVersion: apps/v1, kind: DaemonSet, name: a, uid: b}]", "", nil,
		},
		"of a ReplicaSet, without constraints": {"labels: {pod-template-hash: a}", "",
			[]string{"pod-topology-spread-constraints"}},
		"of a ReplicaSet, with constraints": {"labels: {pod-template-hash: a}",
			"topologySpreadConstraints: [{topologyKey: a, maxSkew: 1, whenUnsatisfiable: DoNotSchedule}]", nil},
		"of nothing, with constraints": {"labels: {x: z}",
			"topologySpreadConstraints: [{topologyKey: a, maxSkew: 1, whenUnsatisfiable: DoNotSchedule}]",
			[]string{"pod-topology-spread-constraints"}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			pod := plain.DeepCopy()
			g.Expect(yaml.Unmarshal([]byte("{metadata: {"+test.metadata+"}, spec: {"+test.spec+"}}"), pod)).To(Succeed())
			raw, err := json.Marshal(create(g, pod))
			g.Expect(err).NotTo(HaveOccurred())
			called := h.calls()
			for _, spared := range test.spared {
				g.Expect(called).NotTo(ContainElement(spared))
			}
			for _, w := range webhooks.All(nil) {
				if w.Validating || !w.Enabled(&h.target.Settings) || !ofPods(w, h) {
					continue
				}
				answer, err := w.Handler.Handle(t.Context(), h.target.Request(t, string(raw)))
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(string(answer.Patch)).To(BeEmpty(), "%s was needed", w.Name)
			}
		})
	}
}

// ofPods reports whether a webhook is about pods.
func ofPods(w admission.Webhook, h *handlers) bool {
	return slices.Contains(w.Entries(&h.target.Settings)[0].Rules[0].Resources, "pods")
}
