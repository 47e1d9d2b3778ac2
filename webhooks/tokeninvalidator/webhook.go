package tokeninvalidator

import (
	"bytes"
	"context"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/webhooks/admission"
)

// invalidToken takes the place of a token: AAAA in base64. It is not empty, since the controller manager of the target
// generates a token only where there is none.
var invalidToken = []byte{0, 0, 0}

// Webhook makes the tokens of Secrets that are marked useless.
func Webhook() admission.Webhook {
	return admission.Webhook{
		Name:     "token-invalidator",
		Path:     "invalidate-service-account-token-secret",
		Settings: func(w *hubv1alpha1.TargetWebhooks) *hubv1alpha1.Webhook { return w.TokenInvalidator },
		Registration: admission.One(func(w *hubv1alpha1.TargetWebhooks) admission.Entry {
			return admission.Entry{
				Rules: []admissionregistrationv1.RuleWithOperations{admission.Rule("", "v1", "secrets",
					admissionregistrationv1.Create, admissionregistrationv1.Update)},
				MatchPolicy:       admissionregistrationv1.Exact,
				NamespaceSelector: admission.Selector(admission.Namespaces(w)),
				ObjectSelector: admission.Selector(
					admission.Is(resourcesv1alpha1.PurposeLabel, resourcesv1alpha1.PurposeTokenInvalidator)),
			}
		}),
		Handler: admission.Mutate(admission.Quietly(func(_ context.Context, _ *admission.Request, s *corev1.Secret) error {
			Invalidate(s)
			return nil
		})),
	}
}

// Invalidate changes a Secret that is created or updated, and reports whether it has changed. The token of one with
// resourcesv1alpha1.ConsiderTokenLabel becomes an invalid one. Without the label, an invalid token is removed, so that
// the controller manager generates another one.
func Invalidate(secret *corev1.Secret) (changed bool) {
	if secret.Data == nil {
		return false
	}
	_, considered := secret.Labels[resourcesv1alpha1.ConsiderTokenLabel]
	switch invalid := bytes.Equal(secret.Data[corev1.ServiceAccountTokenKey], invalidToken); {
	case considered && !invalid:
		secret.Data[corev1.ServiceAccountTokenKey] = bytes.Clone(invalidToken)
	case !considered && invalid:
		delete(secret.Data, corev1.ServiceAccountTokenKey)
	default:
		return false
	}
	return true
}
