package v1alpha1_test

import (
	"testing"

	. "github.com/onsi/gomega"

	configv1alpha1 "github.com/trellis-hub/trellis/apis/config/v1alpha1"
)

func TestNamespacesWhoseSecretsAreNeeded(t *testing.T) {
	tests := map[string]struct {
		classes    string
		namespaces []string
	}{
		"a class of all registrations": {`
- {name: "", target: {type: Namespace}}`, nil},
		"a class of all registrations beside one that lists its namespaces": {`
- {name: a, target: {type: Source}, namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: garden}}}
- {name: "", target: {type: Namespace}}`, nil},
		"a selector does not narrow a class of all registrations": {`
- {name: "", target: {type: Namespace}, namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: garden}}}`, nil},
		"a class that lists its namespace": {`
- {name: a, target: {type: Source}, namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: garden}}}`, []string{"garden"}},
		"what a class demands besides": {`
- {name: a, target: {type: Source}, namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: garden, b: c}}}`, []string{"garden"}},
		"a class that lists namespaces, and its registration elsewhere": {`
- {name: a, target: {type: Registration, namespace: garden, name: virtual}, namespaceSelector: {matchExpressions: [{key: kubernetes.io/metadata.name, operator: In, values: [z, b]}]}}`,
			[]string{"b", "garden", "z"}},
		"several classes with a namespace in common": {`
- {name: a, target: {type: Source}, namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: garden}}}
- {name: b, target: {type: Registration, namespace: garden, name: virtual}, namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: other}}}`,
			[]string{"garden", "other"}},
		"a class that selects by another label": {`
- {name: a, target: {type: Source}, namespaceSelector: {matchLabels: {gardener.cloud/role: shoot}}}`, nil},
		"a class that selects all but some": {`
- {name: a, target: {type: Source}, namespaceSelector: {matchExpressions: [{key: kubernetes.io/metadata.name, operator: NotIn, values: [b]}]}}`, nil},
		"one class that selects by another label": {`
- {name: a, target: {type: Source}, namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: garden}}}
- {name: b, target: {type: Source}, namespaceSelector: {matchLabels: {gardener.cloud/role: shoot}}}`, nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			config, err := configv1alpha1.Load([]byte(`
apiVersion: config.hub.gardener.cloud/v1alpha1
kind: HubConfiguration
leaderElection: {resourceNamespace: trellis}
sourceIdentity: {serviceAccount: {namespace: trellis, name: trellis-source}}
classes:` + test.classes))
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(configv1alpha1.SecretNamespaces(config.Classes)).To(Equal(test.namespaces))
		})
	}
}
