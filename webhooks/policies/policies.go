package policies

import (
	"strconv"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/webhooks/admission"
)

// Way is how the work of a webhook gets into the API server of a target.
type Way int

const (
	// Off is a webhook that is off.
	Off Way = iota
	// Call is a call of the hub.
	Call
	// Policy is one that the API server evaluates itself.
	Policy
	// Missing is a policy that the settings demand and the target does not serve. Nothing is done then.
	Missing
)

// replacement is what a policy does instead of a webhook.
type replacement struct {
	// mode is that of the settings, with defaults.
	mode func(*hubv1alpha1.TargetWebhooks) *hubv1alpha1.WebhookMode
	// mutations are expressions that return JSON patches, for settings with defaults.
	mutations func(*hubv1alpha1.TargetWebhooks) []string
	// validation is an expression that is true for what is allowed, and message says what is missing otherwise.
	validation, message string
}

// replacements are those that there are, by the names of webhooks.
var replacements = map[string]replacement{
	"seccomp-profile": {
		mode: func(w *hubv1alpha1.TargetWebhooks) *hubv1alpha1.WebhookMode { return w.SeccompProfile.Mode },
		mutations: func(*hubv1alpha1.TargetWebhooks) []string {
			return []string{seccompProfile}
		},
	},
	"pod-scheduler-name": {
		mode: func(w *hubv1alpha1.TargetWebhooks) *hubv1alpha1.WebhookMode { return w.PodSchedulerName.Mode },
		mutations: func(w *hubv1alpha1.TargetWebhooks) []string {
			return []string{schedulerName(ptr.Deref(w.PodSchedulerName.SchedulerName, ""))}
		},
	},
	"kubernetes-service-host": {
		mode: func(w *hubv1alpha1.TargetWebhooks) *hubv1alpha1.WebhookMode { return w.KubernetesServiceHost.Mode },
		mutations: func(w *hubv1alpha1.TargetWebhooks) []string {
			return serviceHost(ptr.Deref(w.KubernetesServiceHost.Host, ""),
				ptr.Deref(w.KubernetesServiceHost.Port, defaultPort))
		},
	},
	"endpoint-slice-hints": {
		mode:      func(w *hubv1alpha1.TargetWebhooks) *hubv1alpha1.WebhookMode { return w.EndpointSliceHints.Mode },
		mutations: func(*hubv1alpha1.TargetWebhooks) []string { return []string{endpointHints} },
	},
	"vpa-in-place-updates": {
		mode:      func(w *hubv1alpha1.TargetWebhooks) *hubv1alpha1.WebhookMode { return w.VPAInPlaceUpdates.Mode },
		mutations: func(*hubv1alpha1.TargetWebhooks) []string { return inPlaceUpdates },
	},
	"crd-deletion-protection": {
		mode: func(w *hubv1alpha1.TargetWebhooks) *hubv1alpha1.WebhookMode {
			return w.CRDDeletionProtection.Mode
		},
		validation: deletionConfirmed,
		message:    deletionMessage,
	},
}

// WayOf returns how a webhook gets into a target with settings with defaults. served says whether the target serves
// policies of the kind that the webhook would need.
func WayOf(w admission.Webhook, settings *hubv1alpha1.TargetWebhooks, served bool) Way {
	if !w.Enabled(settings) {
		return Off
	}
	r, there := replacements[w.Name]
	if !there {
		return Call
	}
	switch mode := ptr.Deref(r.mode(settings), hubv1alpha1.WebhookModeAuto); {
	case mode == hubv1alpha1.WebhookModeWebhook:
		return Call
	case served:
		return Policy
	case mode == hubv1alpha1.WebhookModePolicy:
		return Missing
	}
	return Call
}

// Of returns the policies that do what a webhook does for settings with defaults by which it is enabled, each followed
// by its binding. Both have the name of the entry, with a prefix. None: there is no such policy, or the webhook would
// change nothing.
func Of(prefix string, w admission.Webhook, settings *hubv1alpha1.TargetWebhooks) (objects []client.Object) {
	r, there := replacements[w.Name]
	if !there || !w.Enabled(settings) {
		return nil
	}
	for _, entry := range w.Entries(settings) {
		entry.Name = prefix + entry.Name
		if r.validation != "" {
			objects = append(objects, r.validating(entry)...)
		} else if mutations := r.mutations(settings); len(mutations) > 0 {
			entry.ObjectSelector = admission.Excluding(entry.ObjectSelector)
			objects = append(objects, mutating(entry, mutations)...)
		}
	}
	return objects
}

// matching are the objects of an entry.
func matching(entry admission.Entry) *admissionregistrationv1.MatchResources {
	match := &admissionregistrationv1.MatchResources{
		NamespaceSelector: &entry.NamespaceSelector, ObjectSelector: &entry.ObjectSelector,
		MatchPolicy: &entry.MatchPolicy,
	}
	for _, rule := range admission.Scoped(entry.Rules) {
		match.ResourceRules = append(match.ResourceRules,
			admissionregistrationv1.NamedRuleWithOperations{RuleWithOperations: rule})
	}
	return match
}

func mutating(entry admission.Entry, expressions []string) []client.Object {
	meta := metav1.ObjectMeta{Name: entry.Name}
	policy := &admissionregistrationv1.MutatingAdmissionPolicy{
		ObjectMeta: meta,
		Spec: admissionregistrationv1.MutatingAdmissionPolicySpec{
			MatchConstraints: matching(entry), MatchConditions: entry.MatchConditions,
			FailurePolicy: &entry.FailurePolicy, ReinvocationPolicy: admissionregistrationv1.NeverReinvocationPolicy,
		},
	}
	for _, expression := range expressions {
		policy.Spec.Mutations = append(policy.Spec.Mutations, admissionregistrationv1.Mutation{
			PatchType: admissionregistrationv1.PatchTypeJSONPatch,
			JSONPatch: &admissionregistrationv1.JSONPatch{Expression: expression},
		})
	}
	return []client.Object{policy, &admissionregistrationv1.MutatingAdmissionPolicyBinding{
		ObjectMeta: meta, Spec: admissionregistrationv1.MutatingAdmissionPolicyBindingSpec{PolicyName: meta.Name},
	}}
}

func (r replacement) validating(entry admission.Entry) []client.Object {
	meta := metav1.ObjectMeta{Name: entry.Name}
	return []client.Object{
		&admissionregistrationv1.ValidatingAdmissionPolicy{
			ObjectMeta: meta,
			Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
				MatchConstraints: matching(entry), MatchConditions: entry.MatchConditions,
				FailurePolicy: &entry.FailurePolicy,
				Validations: []admissionregistrationv1.Validation{{
					Expression: r.validation, Message: r.message, Reason: ptr.To(metav1.StatusReasonForbidden),
				}},
			},
		},
		&admissionregistrationv1.ValidatingAdmissionPolicyBinding{
			ObjectMeta: meta,
			Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
				PolicyName:        meta.Name,
				ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
			},
		},
	}
}

// literal is a text as an expression has it.
func literal(text string) string { return strconv.QuoteToASCII(text) }
