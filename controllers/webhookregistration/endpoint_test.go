package webhookregistration

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/clustercache"
	"github.com/trellis-hub/trellis/webhooks"
	"github.com/trellis-hub/trellis/webhooks/admission"
	"github.com/trellis-hub/trellis/webhooks/routes"
	"github.com/trellis-hub/trellis/webhooks/server"
)

// CMN-17: targets call the hub by an URL, or by a Service of their own, at the path of the route.
func TestHowTargetsCallTheHub(t *testing.T) {
	route := routes.Route{
		Target: clustercache.ClusterKey{Namespace: "shoot--a", Name: "a"}, UID: "uid", Webhook: "seccomp-profile",
	}
	key := []byte("key")
	path := route.Path(key)
	service := &admissionregistrationv1.ServiceReference{Namespace: "kube-system", Name: "trellis"}
	onPort := service.DeepCopy()
	onPort.Port = ptr.To[int32](8443)
	at := func(port int32) *admissionregistrationv1.ServiceReference {
		return &admissionregistrationv1.ServiceReference{
			Namespace: "kube-system", Name: "trellis", Path: &path, Port: &port,
		}
	}
	for name, test := range map[string]struct {
		endpoint Endpoint
		url      *string
		service  *admissionregistrationv1.ServiceReference
	}{
		"a URL": {
			endpoint: Endpoint{URL: "https://hub.example.org"}, url: ptr.To("https://hub.example.org" + path),
		},
		"a URL with a path": {
			endpoint: Endpoint{URL: "https://example.org/hub/"}, url: ptr.To("https://example.org/hub" + path),
		},
		"a host for each target": {
			endpoint: Endpoint{URL: "https://{target}.example.org"},
			url:      ptr.To("https://" + routes.Label(route.Target, route.UID) + ".example.org" + path),
		},
		"a Service":             {endpoint: Endpoint{Service: service}, service: at(443)},
		"a Service with a port": {endpoint: Endpoint{Service: onPort}, service: at(8443)},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			g.Expect(test.endpoint.to(route, key, []byte("authorities"))).To(Equal(
				admissionregistrationv1.WebhookClientConfig{
					URL: test.url, Service: test.service, CABundle: []byte("authorities"),
				}))
			g.Expect(service.Path).To(BeNil(), "the configuration is shared by all targets")
		})
	}
}

// CMN-17: an API server takes what is written, whether the target has a namespace or is the source.
func TestAPIServersAcceptHowTheHubIsCalled(t *testing.T) {
	b := newBench(t, nil)
	rules := []admissionregistrationv1.RuleWithOperations{
		admission.Rule("", "v1", "pods", admissionregistrationv1.Create),
	}
	paths := []string{server.ReachedPath}
	for _, webhook := range webhooks.All(nil) {
		paths = append(paths, webhook.Path)
	}
	settings := hubv1alpha1.TargetWebhooks{}
	b.Expect(yaml.Unmarshal([]byte(`{projectedTokenMount: {enabled: true}, podSchedulerName: {enabled: true},
		seccompProfile: {enabled: true}, podKubeAPIServerLoadBalancing: {enabled: true},
		systemComponentsConfig: {enabled: true},
		podTopologySpreadConstraints: {enabled: true}}`), &settings)).To(Succeed())
	settings.SetDefaults(hubv1alpha1.WebhookScopeRuntime)
	for _, webhook := range admission.Combined(webhooks.All(nil), &settings) {
		if len(admission.PathsIn(webhook.Path)) > 1 {
			paths = append(paths, webhook.Path)
		}
	}
	b.Expect(len(paths)).To(BeNumerically(">", len(webhooks.All(nil))+1), "none is combined")
	for _, namespace := range []string{"shoot--a", ""} {
		for name, endpoint := range map[string]Endpoint{
			"url":     {URL: "https://hub.example.org/webhooks"},
			"host":    {URL: "https://{target}.example.org"},
			"service": {Service: &admissionregistrationv1.ServiceReference{Namespace: "kube-system", Name: "trellis"}},
		} {
			configuration := &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: name}}
			for i, path := range paths {
				route := routes.Route{
					Target: clustercache.ClusterKey{Namespace: namespace, Name: "a.b"}, Webhook: path, Ignored: i%2 == 0,
					UID: "0b4c7d1e-55aa-4a3e-9b0e-3f2d8f1c6a7b",
				}
				configuration.Webhooks = append(configuration.Webhooks, admissionregistrationv1.MutatingWebhook{
					Name: fmt.Sprintf("test-%d.example.org", i), Rules: rules, AdmissionReviewVersions: []string{"v1"},
					SideEffects:  ptr.To(admissionregistrationv1.SideEffectClassNone),
					ClientConfig: endpoint.to(route, []byte("key"), nil),
				})
			}
			b.Expect(shared.B.Client.Create(b.ctx, configuration, client.DryRunAll)).To(Succeed(), "%s %q", name, namespace)
		}
	}
}
