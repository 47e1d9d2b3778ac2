package reviews

import (
	"encoding/json"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/webhooks/admission"
)

// Target is one that sends objects.
type Target struct {
	Key   clustercache.ClusterKey
	State *State
	// Settings are those of its webhooks, with defaults.
	Settings hubv1alpha1.TargetWebhooks
	// Namespace is that of requests, kube-system by default, and Labels are its labels.
	Namespace string
	Labels    map[string]string
	// Operation is Create by default.
	Operation admissionv1.Operation
	// Resource is that of requests, if it matters to the webhook.
	Resource metav1.GroupVersionResource
}

// Webhooks are settings with defaults. The YAML is that of spec.webhooks of a TargetCluster, whose braces can be left
// out.
func Webhooks(t testing.TB, settings string) (w hubv1alpha1.TargetWebhooks) {
	t.Helper()
	if !strings.HasPrefix(settings, "{") {
		settings = "{" + settings + "}"
	}
	NewWithT(t).Expect(yaml.UnmarshalStrict([]byte(settings), &w)).To(Succeed())
	w.SetDefaults(hubv1alpha1.WebhookScopeTarget)
	return w
}

// Answer is what became of an object.
type Answer struct {
	admission.Response

	// Called is false if no entry of the webhook matches, so that the API server does not call it.
	Called bool
	Err    error
	// Object is as the API server has it then, in JSON.
	Object []byte
}

// Request is what the API server sends about an object in JSON or YAML.
func (c Target) Request(t testing.TB, object string) *admission.Request {
	t.Helper()
	g := NewWithT(t)
	raw, err := yaml.YAMLToJSON([]byte(object))
	g.Expect(err).NotTo(HaveOccurred())
	var meta metav1.PartialObjectMetadata
	g.Expect(json.Unmarshal(raw, &meta)).To(Succeed())
	kind := schema.FromAPIVersionAndKind(meta.APIVersion, meta.Kind)
	if c.Operation == "" {
		c.Operation = admissionv1.Create
	}
	if c.Namespace == "" {
		c.Namespace = metav1.NamespaceSystem
	}
	if c.State == nil {
		c.State = &State{}
	}
	return &admission.Request{
		Target: c.Key, Settings: c.Settings, State: c.State, AdmissionRequest: &admissionv1.AdmissionRequest{
			UID: "1", Operation: c.Operation, Namespace: c.Namespace, Name: meta.Name, Resource: c.Resource,
			Kind:   metav1.GroupVersionKind{Group: kind.Group, Version: kind.Version, Kind: kind.Kind},
			Object: runtime.RawExtension{Raw: raw},
		},
	}
}

// Send sends an object in YAML to a webhook, and what has become of it once more. It has to stay as it is then.
func (c Target) Send(t testing.TB, w admission.Webhook, object string) Answer {
	t.Helper()
	answer := c.send(t, w, object)
	if answer.Called && answer.Err == nil && answer.Denied == nil {
		NewWithT(t).Expect(c.send(t, w, string(answer.Object)).Patch).To(BeEmpty(), "twice is the same as once")
	}
	return answer
}

func (c Target) send(t testing.TB, w admission.Webhook, object string) (answer Answer) {
	t.Helper()
	g := NewWithT(t)
	request := c.Request(t, object)
	answer.Object = request.Object.Raw
	if answer.Called = c.selects(t, w, request); !answer.Called {
		return answer
	}
	answer.Response, answer.Err = w.Handler.Handle(t.Context(), request)
	if len(answer.Patch) == 0 {
		return answer
	}
	patch, err := jsonpatch.DecodePatch(answer.Patch)
	g.Expect(err).NotTo(HaveOccurred())
	answer.Object, err = patch.Apply(answer.Object)
	g.Expect(err).NotTo(HaveOccurred(), string(answer.Patch))
	return answer
}

// selects reports whether a webhook is on, and the selectors of one of its entries match.
func (c Target) selects(t testing.TB, w admission.Webhook, request *admission.Request) bool {
	t.Helper()
	if !w.Enabled(&c.Settings) {
		return false
	}
	namespace := labels.Merge(c.Labels, labels.Set{corev1.LabelMetadataName: request.Namespace})
	var meta metav1.PartialObjectMetadata
	NewWithT(t).Expect(json.Unmarshal(request.Object.Raw, &meta)).To(Succeed())
	for _, entry := range w.Entries(&c.Settings) {
		if matches(t, entry.NamespaceSelector, namespace) && matches(t, entry.ObjectSelector, meta.Labels) {
			return true
		}
	}
	return false
}

func matches(t testing.TB, selector metav1.LabelSelector, of labels.Set) bool {
	t.Helper()
	s, err := metav1.LabelSelectorAsSelector(&selector)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return s.Matches(of)
}
