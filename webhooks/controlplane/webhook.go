package controlplane

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/webhooks/admission"
)

// Definition describes a webhook of a provider.
type Definition struct {
	// Component is the name of the extension, such as provider-example. It is part of names of configurations.
	Component string
	// Provider is the type of infrastructure, and the value of the label of namespaces that the webhook is for.
	Provider string
	// Kind says which label that is. With InShoot, it has no effect but on the name.
	Kind Kind
	// Mutators change objects, Validators refuse them. A webhook has the ones or the others, one for each kind of
	// object.
	Mutators   []Mutator
	Validators []Validator
	// ObjectSelector selects objects. Nil: all. Usual is one for MutatedLabel.
	ObjectSelector *metav1.LabelSelector
	// InShoot is for objects in the namespace kube-system of shoots, rather than for those of their control planes.
	InShoot bool
	// TimeoutSeconds is how long API servers wait. Zero: 10.
	TimeoutSeconds int32
	// FailurePolicy is what becomes of a request if the webhook cannot be called. Empty: Fail, in shoots Ignore.
	FailurePolicy admissionregistrationv1.FailurePolicyType

	// Reader reads from the cluster of the objects: Clusters, and what mutators ask for. Nil if nothing is read.
	Reader client.Reader
	// ReaderOf returns what reads from the cluster of a request, for a hub that serves several of them, and takes the
	// place of Reader. If it fails, the object is refused unless the failure policy is Ignore.
	ReaderOf func(context.Context, *admission.Request) (client.Reader, error)
	// Shoot returns what reads from the shoot of a request. Nil: mutators do not need it. If it fails, the object is
	// refused unless the failure policy is Ignore.
	Shoot func(context.Context, *admission.Request) (client.Reader, error)
	// WithCluster reads the Cluster before a mutator is called. If there is none, the object is refused unless the
	// failure policy is Ignore. Without it, the Cluster is read when a mutator asks for it.
	WithCluster bool
}

// Webhook is what New makes of a Definition.
type Webhook struct {
	definition Definition
	name       string
	namespaces *metav1.LabelSelector
	handler    *handler
}

// New makes a webhook. The error says what is missing in the definition or contradicts itself.
func New(d Definition) (*Webhook, error) {
	name, err := d.Kind.Name()
	if err != nil {
		return nil, err
	}
	namespaces, err := d.Kind.NamespaceSelector(d.Provider)
	if err != nil {
		return nil, err
	}
	switch {
	case d.Component == "" || d.Provider == "":
		return nil, errors.New("a webhook needs a component and a provider")
	case len(d.Mutators) > 0 && len(d.Validators) > 0:
		return nil, fmt.Errorf("webhook %s of %s has mutators and validators: make two of it", name, d.Component)
	case len(d.Mutators)+len(d.Validators) == 0:
		return nil, fmt.Errorf("webhook %s of %s has neither mutators nor validators", name, d.Component)
	case d.WithCluster && d.Reader == nil && d.ReaderOf == nil:
		return nil, fmt.Errorf("webhook %s of %s wants the Cluster and has no reader", name, d.Component)
	}
	if d.InShoot {
		namespaces = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: "gardener.cloud/purpose", Operator: metav1.LabelSelectorOpIn,
				Values: []string{metav1.NamespaceSystem}},
		}}
	}
	if d.TimeoutSeconds == 0 {
		d.TimeoutSeconds = 10
	}
	if d.FailurePolicy == "" {
		d.FailurePolicy = admissionregistrationv1.Fail
		if d.InShoot {
			d.FailurePolicy = admissionregistrationv1.Ignore
		}
	}
	h := &handler{
		mutators: map[schema.GroupVersionKind]Mutator{}, validators: map[schema.GroupVersionKind]Validator{},
		reader: d.Reader, readerOf: d.ReaderOf, shoot: d.Shoot, cluster: d.WithCluster,
	}
	for _, m := range d.Mutators {
		if _, twice := h.mutators[m.resource.GroupVersionKind]; twice {
			return nil, fmt.Errorf("webhook %s of %s has two mutators for %s", name, d.Component, m.resource.Kind)
		}
		h.mutators[m.resource.GroupVersionKind] = m
	}
	for _, v := range d.Validators {
		if _, twice := h.validators[v.resource.GroupVersionKind]; twice {
			return nil, fmt.Errorf("webhook %s of %s has two validators for %s", name, d.Component, v.resource.Kind)
		}
		h.validators[v.resource.GroupVersionKind] = v
	}
	return &Webhook{definition: d, name: name, namespaces: namespaces, handler: h}, nil
}

// Handler answers requests.
func (w *Webhook) Handler() admission.Handler { return w.handler }

// Path is the last part of the URL that the webhook is served at.
func (w *Webhook) Path() string { return w.name }

// Validating reports whether the webhook refuses objects rather than changing them.
func (w *Webhook) Validating() bool { return len(w.definition.Validators) > 0 }

// Admission is the webhook as a hub registers and serves it for targets whose settings name the provider: for those
// that control planes run in, or for shoots if it is for objects in these. The failure policy is that of the
// settings.
func (w *Webhook) Admission() admission.Webhook {
	return admission.Webhook{
		Name: w.definition.Component + "-" + w.name, Path: w.definition.Component + "-" + w.name,
		Validating: w.Validating(), Handler: w.handler,
		Settings: func(settings *hubv1alpha1.TargetWebhooks) *hubv1alpha1.Webhook {
			runtime := settings.Registration != nil && settings.Registration.Scope != nil &&
				*settings.Registration.Scope == hubv1alpha1.WebhookScopeRuntime
			own := settings.ControlPlanes
			if own == nil || runtime == w.definition.InShoot || !slices.Contains(own.Providers, w.definition.Provider) {
				return nil
			}
			return &own.Webhook
		},
		Registration: func(*hubv1alpha1.TargetWebhooks) []admission.Entry {
			entry := w.entry()
			entry.FailurePolicy = ""
			return []admission.Entry{entry}
		},
	}
}

func (w *Webhook) entry() admission.Entry {
	return admission.Entry{
		Name: w.name + "." + w.short(), Rules: w.rules(), FailurePolicy: w.definition.FailurePolicy,
		MatchPolicy: admissionregistrationv1.Exact, TimeoutSeconds: w.definition.TimeoutSeconds,
		NamespaceSelector: *w.namespaces, ObjectSelector: ptr.Deref(w.definition.ObjectSelector,
			metav1.LabelSelector{}),
	}
}

// short is the name of the component as it is part of the names of entries.
func (w *Webhook) short() string { return strings.TrimPrefix(w.definition.Component, "provider-") }

// rules has one for each resource.
func (w *Webhook) rules() []admissionregistrationv1.RuleWithOperations {
	var resources []Resource
	for _, m := range w.definition.Mutators {
		resources = append(resources, m.resource)
	}
	for _, v := range w.definition.Validators {
		resources = append(resources, v.resource)
	}
	var rules []admissionregistrationv1.RuleWithOperations
	for _, r := range resources {
		version, plural := r.Version, r.Plural
		if version == AnyVersion {
			version = "*"
		}
		if r.Subresource != "" {
			plural += "/" + r.Subresource
		}
		rules = append(rules, admissionregistrationv1.RuleWithOperations{
			Operations: []admissionregistrationv1.OperationType{
				admissionregistrationv1.Create, admissionregistrationv1.Update,
			},
			Rule: admissionregistrationv1.Rule{
				APIGroups: []string{r.Group}, APIVersions: []string{version}, Resources: []string{plural},
			},
		})
	}
	return rules
}
