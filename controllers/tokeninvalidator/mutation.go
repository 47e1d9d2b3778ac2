package tokeninvalidator

import (
	"bytes"

	corev1 "k8s.io/api/core/v1"
)

const (
	// PurposeLabel of a Secret, with the value Purpose, routes what is written to it through the webhook.
	PurposeLabel = "resources.gardener.cloud/purpose"
	// Purpose is the value of PurposeLabel of Secrets that the webhook gets to see.
	Purpose = "token-invalidator"
	// ConsiderLabel of a Secret, of whatever value, says that its token is to be invalid.
	ConsiderLabel = "token-invalidator.resources.gardener.cloud/consider"
	// SkipLabel of a ServiceAccount, of whatever value, says that its tokens stay valid.
	SkipLabel = "token-invalidator.resources.gardener.cloud/skip"
)

// invalidToken takes the place of a token: AAAA in base64. It is not empty, since the controller manager of the target
// generates a token only where there is none.
var invalidToken = []byte{0, 0, 0}

// Mutate is what the webhook does with a Secret that is created or updated, and tells whether it has changed. The token
// of one with ConsiderLabel becomes an invalid one. Without the label, an invalid token is removed, so that the
// controller manager generates another one. It reads nothing but the Secret, so it is the same for all targets.
func Mutate(secret *corev1.Secret) (changed bool) {
	if secret.Data == nil {
		return false
	}
	_, considered := secret.Labels[ConsiderLabel]
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
