package controlplane

import (
	"fmt"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// remediationExclusion says that no controller is to repair the configuration, whatever it does to a shoot.
const remediationExclusion = "remediation.webhook.shoot.gardener.cloud/exclude"

// Service is where a provider that serves its webhooks itself is reached.
type Service struct {
	Namespace, Name string
	// Port is that of the Service. Zero: 443.
	Port int32
}

// Server says how API servers reach a webhook that is served by the provider itself. Exactly one of its fields that are
// not CABundle is set.
type Server struct {
	// Service is called in the cluster of the API server.
	Service *Service
	// URL is a host with a port, for a server outside of any cluster.
	URL string
	// ServiceURL is a Service that is called by its name, from the control plane of a shoot in the same cluster.
	ServiceURL *Service
	// CABundle has certificates of authorities, in PEM. Empty: Merge takes those that are there.
	CABundle []byte
}

// clientConfig is how a path is called.
func (s Server) clientConfig(path string) (admissionregistrationv1.WebhookClientConfig, error) {
	config := admissionregistrationv1.WebhookClientConfig{CABundle: s.CABundle}
	modes := 0
	if s.Service != nil {
		modes++
		config.Service = &admissionregistrationv1.ServiceReference{
			Namespace: s.Service.Namespace, Name: s.Service.Name, Path: ptr.To("/" + path),
			Port: ptr.To(s.Service.port()),
		}
	}
	if s.URL != "" {
		modes++
		config.URL = ptr.To(fmt.Sprintf("https://%s/%s", s.URL, path))
	}
	if s.ServiceURL != nil {
		modes++
		config.URL = ptr.To(fmt.Sprintf("https://%s.%s:%d/%s",
			s.ServiceURL.Name, s.ServiceURL.Namespace, s.ServiceURL.port(), path))
	}
	if modes != 1 {
		return config, fmt.Errorf("a server is a service, a URL, or the URL of a service, and %d of them are given",
			modes)
	}
	return config, nil
}

func (s *Service) port() int32 {
	if s.Port == 0 {
		return 443
	}
	return s.Port
}

// Configuration is the object that registers the webhook with an API server, for a provider that serves it itself: a
// MutatingWebhookConfiguration, or a ValidatingWebhookConfiguration. Several webhooks of a component are merged by
// Merge.
func (w *Webhook) Configuration(server Server) (client.Object, error) {
	config, err := server.clientConfig(w.name)
	if err != nil {
		return nil, err
	}
	meta := metav1.ObjectMeta{Name: w.configurationName(), Labels: map[string]string{remediationExclusion: "true"}}
	entry := w.entry()
	name := entry.Name + ".extensions.gardener.cloud"
	versions, sideEffects := []string{"v1", "v1beta1"}, admissionregistrationv1.SideEffectClassNone
	if w.Validating() {
		return &admissionregistrationv1.ValidatingWebhookConfiguration{
			ObjectMeta: meta,
			Webhooks: []admissionregistrationv1.ValidatingWebhook{{
				Name: name, ClientConfig: config, Rules: entry.Rules, FailurePolicy: &entry.FailurePolicy,
				MatchPolicy: &entry.MatchPolicy, NamespaceSelector: &entry.NamespaceSelector,
				ObjectSelector: &entry.ObjectSelector, SideEffects: &sideEffects, TimeoutSeconds: &entry.TimeoutSeconds,
				AdmissionReviewVersions: versions,
			}},
		}, nil
	}
	return &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: meta,
		Webhooks: []admissionregistrationv1.MutatingWebhook{{
			Name: name, ClientConfig: config, Rules: entry.Rules, FailurePolicy: &entry.FailurePolicy,
			MatchPolicy: &entry.MatchPolicy, NamespaceSelector: &entry.NamespaceSelector,
			ObjectSelector: &entry.ObjectSelector, SideEffects: &sideEffects, TimeoutSeconds: &entry.TimeoutSeconds,
			AdmissionReviewVersions: versions,
		}},
	}, nil
}

// configurationName is that of the object that registers webhooks of the component.
func (w *Webhook) configurationName() string {
	name := w.definition.Component
	if !strings.HasPrefix(name, "gardener-") {
		name = "gardener-extension-" + name
	}
	if w.definition.InShoot {
		name += "-shoot"
	}
	return name
}

// Merge returns one configuration with the webhooks of several, which are all of the same type and name. Bundles of
// authorities that they do not have come from the entries of the same name in the one that is there, which may be nil.
func Merge(
	existing *admissionregistrationv1.MutatingWebhookConfiguration,
	wanted ...*admissionregistrationv1.MutatingWebhookConfiguration,
) *admissionregistrationv1.MutatingWebhookConfiguration {
	if len(wanted) == 0 {
		return nil
	}
	merged := wanted[0].DeepCopy()
	for _, other := range wanted[1:] {
		merged.Webhooks = append(merged.Webhooks, other.DeepCopy().Webhooks...)
	}
	if existing == nil {
		return merged
	}
	bundles := map[string][]byte{}
	for _, w := range existing.Webhooks {
		bundles[w.Name] = w.ClientConfig.CABundle
	}
	for i := range merged.Webhooks {
		if config := &merged.Webhooks[i].ClientConfig; len(config.CABundle) == 0 {
			config.CABundle = bundles[merged.Webhooks[i].Name]
		}
	}
	return merged
}
