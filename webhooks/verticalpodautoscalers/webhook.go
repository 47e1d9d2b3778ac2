package verticalpodautoscalers

import (
	"context"
	"maps"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/webhooks/admission"
)

const (
	// SkipLabel, of whatever value, leaves an object as it is.
	SkipLabel = "vpa-in-place-updates.resources.gardener.cloud/skip"
	// MutatedLabel, "true", is on objects whose mode was replaced.
	MutatedLabel = "vpa-in-place-updates.resources.gardener.cloud/mutated"
)

// Update modes of vertical pod autoscalers. None is ModeAuto.
const (
	ModeAuto              = "Auto"
	ModeRecreate          = "Recreate"
	ModeInPlaceOrRecreate = "InPlaceOrRecreate"
)

// Autoscaler is what the webhook reads and writes of an object.
type Autoscaler struct {
	Metadata Metadata `json:"metadata"`
	Spec     Spec     `json:"spec"`
}

// Metadata are the labels of an object.
type Metadata struct {
	Labels map[string]string `json:"labels,omitempty"`
}

// Spec is that of an object.
type Spec struct {
	UpdatePolicy *UpdatePolicy `json:"updatePolicy,omitempty"`
}

// UpdatePolicy says how pods get their recommended resources.
type UpdatePolicy struct {
	UpdateMode *string `json:"updateMode,omitempty"`
}

// DeepCopy returns a copy.
func (a *Autoscaler) DeepCopy() *Autoscaler {
	copied := &Autoscaler{Metadata: Metadata{Labels: maps.Clone(a.Metadata.Labels)}}
	if policy := a.Spec.UpdatePolicy; policy != nil {
		copied.Spec.UpdatePolicy = &UpdatePolicy{}
		if policy.UpdateMode != nil {
			mode := *policy.UpdateMode
			copied.Spec.UpdatePolicy.UpdateMode = &mode
		}
	}
	return copied
}

// InPlaceUpdates has autoscalers resize pods in place where they would restart them.
func InPlaceUpdates() admission.Webhook {
	return admission.Webhook{
		Name: "vpa-in-place-updates",
		Path: "vpa-in-place-updates",
		Settings: func(w *hubv1alpha1.TargetWebhooks) *hubv1alpha1.Webhook {
			if w.VPAInPlaceUpdates == nil {
				return nil
			}
			return &w.VPAInPlaceUpdates.Webhook
		},
		Registration: admission.One(func(w *hubv1alpha1.TargetWebhooks) admission.Entry {
			return admission.Entry{
				Rules: []admissionregistrationv1.RuleWithOperations{admission.Rule("autoscaling.k8s.io", "v1",
					"verticalpodautoscalers", admissionregistrationv1.Create, admissionregistrationv1.Update)},
				MatchPolicy:       admissionregistrationv1.Equivalent,
				NamespaceSelector: admission.Selector(admission.Namespaces(w)),
				ObjectSelector:    admission.Selector(admission.Without(SkipLabel)),
			}
		}),
		Handler: admission.Mutate(admission.Quietly(func(_ context.Context, _ *admission.Request, a *Autoscaler) error {
			UpdateInPlace(a)
			return nil
		})),
	}
}

// UpdateInPlace replaces the modes that restart pods, and marks the object.
func UpdateInPlace(a *Autoscaler) {
	mode := ModeAuto
	if policy := a.Spec.UpdatePolicy; policy != nil && policy.UpdateMode != nil && *policy.UpdateMode != "" {
		mode = *policy.UpdateMode
	}
	if mode != ModeAuto && mode != ModeRecreate {
		return
	}
	if a.Spec.UpdatePolicy == nil {
		a.Spec.UpdatePolicy = &UpdatePolicy{}
	}
	inPlace := ModeInPlaceOrRecreate
	a.Spec.UpdatePolicy.UpdateMode = &inPlace
	if a.Metadata.Labels == nil {
		a.Metadata.Labels = map[string]string{}
	}
	a.Metadata.Labels[MutatedLabel] = "true"
}
