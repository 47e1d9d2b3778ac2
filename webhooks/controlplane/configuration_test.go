package controlplane_test

import (
	"testing"

	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/webhooks/controlplane"
)

// CPW-1, CPW-2, CPW-3, CPW-4
func TestCPW_Kinds(t *testing.T) {
	g := NewWithT(t)
	for kind, want := range map[controlplane.Kind][2]string{
		controlplane.Shoot:  {"controlplane", "shoot.gardener.cloud/provider"},
		controlplane.Seed:   {"controlplaneexposure", "seed.gardener.cloud/provider"},
		controlplane.Backup: {"controlplanebackup", "backup.gardener.cloud/provider"},
	} {
		name, err := kind.Name()
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(name).To(Equal(want[0]))
		selector, err := kind.NamespaceSelector("example")
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(metav1.FormatLabelSelector(selector)).To(Equal(want[1] + " in (example)"))
	}
	_, err := controlplane.Kind("garden").Name()
	g.Expect(err).To(MatchError(ContainSubstring("garden")))
	_, err = controlplane.Kind("garden").NamespaceSelector("example")
	g.Expect(err).To(HaveOccurred())
	_, err = controlplane.New(controlplane.Definition{Kind: "garden"})
	g.Expect(err).To(HaveOccurred())
}

func definition() controlplane.Definition {
	return controlplane.Definition{
		Component: "provider-example", Provider: "example", Kind: controlplane.Shoot,
		Mutators:       controlplane.Mutators(controlplane.NoopEnsurer{}),
		ObjectSelector: &metav1.LabelSelector{MatchLabels: map[string]string{controlplane.MutatedLabel: "true"}},
	}
}

// CPW-5, CPW-21
func TestCPW21_Configurations(t *testing.T) {
	service := &controlplane.Service{Namespace: "extension", Name: "hook"}
	tests := []struct {
		name                string
		server              controlplane.Server
		inShoot             bool
		clientConfig        string
		object, policy, key string
	}{
		{
			"service", controlplane.Server{Service: service, CABundle: []byte("x")}, false,
			`{caBundle: eA==, service: {namespace: extension, name: hook, path: /controlplane, port: 443}}`,
			"gardener-extension-provider-example", "Fail",
			"shoot.gardener.cloud/provider, operator: In, values: [example]",
		},
		{
			"url", controlplane.Server{URL: "host:8443", CABundle: []byte("x")}, false,
			`{caBundle: eA==, url: "https://host:8443/controlplane"}`,
			"gardener-extension-provider-example", "Fail",
			"shoot.gardener.cloud/provider, operator: In, values: [example]",
		},
		{
			"url of a service, in shoots", controlplane.Server{ServiceURL: service, CABundle: []byte("x")}, true,
			`{caBundle: eA==, url: "https://hook.extension:443/controlplane"}`,
			"gardener-extension-provider-example-shoot", "Ignore",
			"gardener.cloud/purpose, operator: In, values: [kube-system]",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			g := NewWithT(t)
			d := definition()
			d.InShoot = test.inShoot
			d.Mutators = d.Mutators[1:4] // of Deployments, StatefulSets and VerticalPodAutoscalers
			w, err := controlplane.New(d)
			g.Expect(err).NotTo(HaveOccurred())
			configuration, err := w.Configuration(test.server)
			g.Expect(err).NotTo(HaveOccurred())
			text, err := yaml.Marshal(configuration)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(text).To(MatchYAML(`
metadata:
  name: ` + test.object + `
  labels: {remediation.webhook.shoot.gardener.cloud/exclude: "true"}
webhooks:
- name: controlplane.example.extensions.gardener.cloud
  clientConfig: ` + test.clientConfig + `
  rules:
  - {apiGroups: [apps], apiVersions: [v1], resources: [deployments], operations: [CREATE, UPDATE]}
  - {apiGroups: [apps], apiVersions: [v1], resources: [statefulsets], operations: [CREATE, UPDATE]}
  - apiGroups: [autoscaling.k8s.io]
    apiVersions: ["*"]
    resources: [verticalpodautoscalers]
    operations: [CREATE, UPDATE]
  failurePolicy: ` + test.policy + `
  matchPolicy: Exact
  namespaceSelector: {matchExpressions: [{key: ` + test.key + `}]}
  objectSelector: {matchLabels: {provider.extensions.gardener.cloud/mutated-by-controlplane-webhook: "true"}}
  sideEffects: None
  timeoutSeconds: 10
  admissionReviewVersions: [v1, v1beta1]
`))
		})
	}
}

func TestConfigurationsNeedOneServer(t *testing.T) {
	g := NewWithT(t)
	w, err := controlplane.New(definition())
	g.Expect(err).NotTo(HaveOccurred())
	for _, server := range []controlplane.Server{{}, {URL: "host:1", Service: &controlplane.Service{}}} {
		_, err := w.Configuration(server)
		g.Expect(err).To(HaveOccurred())
	}
}

func TestCPW22_MergeKeepsBundles(t *testing.T) {
	g := NewWithT(t)
	configuration := func(kind controlplane.Kind, bundle string) *admissionregistrationv1.MutatingWebhookConfiguration {
		d := definition()
		d.Kind = kind
		w, err := controlplane.New(d)
		g.Expect(err).NotTo(HaveOccurred())
		object, err := w.Configuration(controlplane.Server{URL: "host:8443", CABundle: []byte(bundle)})
		g.Expect(err).NotTo(HaveOccurred())
		mutating, isMutating := object.(*admissionregistrationv1.MutatingWebhookConfiguration)
		g.Expect(isMutating).To(BeTrue())
		return mutating
	}
	existing := controlplane.Merge(nil, configuration(controlplane.Shoot, "one"),
		configuration(controlplane.Seed, "two"))
	merged := controlplane.Merge(existing, configuration(controlplane.Shoot, ""),
		configuration(controlplane.Seed, "new"))
	g.Expect(merged.Webhooks).To(HaveLen(2))
	g.Expect(string(merged.Webhooks[0].ClientConfig.CABundle)).To(Equal("one"))
	g.Expect(string(merged.Webhooks[1].ClientConfig.CABundle)).To(Equal("new"))
	g.Expect(controlplane.Merge(existing)).To(BeNil())
}

func TestCPW25_MutatorsOrValidators(t *testing.T) {
	g := NewWithT(t)
	validator := controlplane.Validate(deployments, nothing)
	for name, change := range map[string]func(*controlplane.Definition){
		"mutators and validators": func(d *controlplane.Definition) {
			d.Validators = []controlplane.Validator{validator}
		},
		"neither":      func(d *controlplane.Definition) { d.Mutators = nil },
		"no component": func(d *controlplane.Definition) { d.Component = "" },
		"no reader":    func(d *controlplane.Definition) { d.WithCluster = true },
		"twice":        func(d *controlplane.Definition) { d.Mutators = append(d.Mutators, d.Mutators[0]) },
		"twice validating": func(d *controlplane.Definition) {
			d.Mutators, d.Validators = nil, []controlplane.Validator{validator, validator}
		},
	} {
		d := definition()
		change(&d)
		_, err := controlplane.New(d)
		g.Expect(err).To(HaveOccurred(), name)
	}
}

func TestAHubServesItWhereControlPlanesRun(t *testing.T) {
	g := NewWithT(t)
	w, err := controlplane.New(definition())
	g.Expect(err).NotTo(HaveOccurred())
	registered := w.Admission()
	on := func(provider string) *hubv1alpha1.ControlPlanesWebhook {
		return &hubv1alpha1.ControlPlanesWebhook{
			Webhook: hubv1alpha1.Webhook{
				Enabled: ptr.To(true), FailurePolicy: ptr.To(admissionregistrationv1.Ignore),
			},
			Providers: []string{"other", provider},
		}
	}
	for name, test := range map[string]struct {
		scope   hubv1alpha1.WebhookScope
		own     *hubv1alpha1.ControlPlanesWebhook
		enabled bool
	}{
		"a cluster with control planes":     {hubv1alpha1.WebhookScopeRuntime, on("example"), true},
		"a shoot":                           {hubv1alpha1.WebhookScopeTarget, on("example"), false},
		"a cluster with others":             {hubv1alpha1.WebhookScopeRuntime, on("another"), false},
		"a cluster that says nothing of it": {hubv1alpha1.WebhookScopeRuntime, nil, false},
	} {
		settings := &hubv1alpha1.TargetWebhooks{
			Registration: &hubv1alpha1.WebhookRegistration{Scope: &test.scope}, ControlPlanes: test.own,
		}
		g.Expect(registered.Enabled(settings)).To(Equal(test.enabled), name)
		if test.enabled {
			g.Expect(registered.Entries(settings)).To(ConsistOf(
				HaveField("FailurePolicy", admissionregistrationv1.Ignore)))
		}
	}
}
