package controlplane

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Kind says whose provider a webhook is of, and so the namespaces that it is for.
type Kind string

// Kinds of webhooks.
const (
	// Shoot is for what the infrastructure of the shoot needs, such as flags of a cloud provider.
	Shoot Kind = "shoot"
	// Seed is for what the infrastructure of the seed needs, such as annotations of Services for load balancers.
	Seed Kind = "seed"
	// Backup is for what the infrastructure of backups needs.
	Backup Kind = "backup"
)

// MutatedLabel is, with the value "true", on the objects that Gardener deploys for webhooks to change.
const MutatedLabel = "provider.extensions.gardener.cloud/mutated-by-controlplane-webhook"

// kinds are the name of the webhook of each, which is the last part of its URL, too, and the label of namespaces whose
// value is the provider.
var kinds = map[Kind]struct{ name, label string }{
	Shoot:  {"controlplane", "shoot.gardener.cloud/provider"},
	Seed:   {"controlplaneexposure", "seed.gardener.cloud/provider"},
	Backup: {"controlplanebackup", "backup.gardener.cloud/provider"},
}

// Name of the webhook of this kind. The error says that there is no such kind.
func (k Kind) Name() (string, error) {
	kind, known := kinds[k]
	if !known {
		return "", fmt.Errorf("there is no kind %q of control plane webhooks", string(k))
	}
	return kind.name, nil
}

// NamespaceSelector selects namespaces of a provider. The error says that there is no such kind.
func (k Kind) NamespaceSelector(provider string) (*metav1.LabelSelector, error) {
	kind, known := kinds[k]
	if !known {
		return nil, fmt.Errorf("there is no kind %q of control plane webhooks", string(k))
	}
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
		{Key: kind.label, Operator: metav1.LabelSelectorOpIn, Values: []string{provider}},
	}}, nil
}
