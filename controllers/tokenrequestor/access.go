package tokenrequestor

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/trellis-hub/trellis/untrusted"
)

// defaultExpiration is the lifetime of a token if its Secret does not ask for another one.
const defaultExpiration = 12 * time.Hour

// shownValue is how many bytes of an annotation are shown.
const shownValue = 64

// access is what an access Secret asks for.
type access struct {
	account      types.NamespacedName
	labels       map[string]string
	expiration   time.Duration
	injectCA     bool
	targetSecret types.NamespacedName // zero: the token goes into the access Secret
}

// username is the name by which the API server knows the ServiceAccount.
func (a *access) username() string {
	return "system:serviceaccount:" + a.account.Namespace + ":" + a.account.Name
}

// inputError says what is wrong with an access Secret. It is for an event.
type inputError struct{ reason, message string }

// Error implements error.
func (e *inputError) Error() string { return e.message }

func invalidAnnotation(key, value, fault string) error {
	return &inputError{reasonInvalidAnnotation,
		fmt.Sprintf("Annotation %s: %q %s", key, untrusted.Text(value, shownValue), untrusted.Text(fault, 2*shownValue))}
}

// parseAccess reads the annotations of an access Secret, but for the timestamp. ignored are faults that have no effect.
func parseAccess(secret *corev1.Secret, settings Settings) (a *access, ignored, err error) {
	a = &access{expiration: defaultExpiration}
	a.account.Name = secret.Annotations[ServiceAccountNameAnnotation]
	if err := checkName(ServiceAccountNameAnnotation, a.account.Name, validation.IsDNS1123Subdomain); err != nil {
		return nil, nil, err
	}
	if a.account.Namespace = settings.TargetNamespace; a.account.Namespace == "" {
		a.account.Namespace = secret.Annotations[ServiceAccountNamespaceAnnotation]
		err := checkName(ServiceAccountNamespaceAnnotation, a.account.Namespace, validation.IsDNS1123Label)
		if err != nil {
			return nil, nil, err
		}
	}
	if a.labels, err = parseLabels(secret.Annotations); err != nil {
		return nil, nil, err
	}
	if text := secret.Annotations[ExpirationAnnotation]; text != "" {
		if a.expiration, err = time.ParseDuration(text); err != nil {
			return nil, nil, invalidAnnotation(ExpirationAnnotation, text, "is no duration such as 12h")
		}
	}
	if text := secret.Annotations[InjectCAAnnotation]; text != "" {
		if a.injectCA, err = strconv.ParseBool(text); err != nil {
			ignored = invalidAnnotation(InjectCAAnnotation, text, "is neither true nor false, and counts as false")
		}
	}
	a.targetSecret, err = parseTargetSecret(secret.Annotations)
	return a, ignored, err
}

func parseLabels(annotations map[string]string) (labels map[string]string, err error) {
	text, has := annotations[ServiceAccountLabelsAnnotation]
	if !has {
		return nil, nil
	}
	if err := json.Unmarshal([]byte(text), &labels); err != nil {
		return nil, invalidAnnotation(ServiceAccountLabelsAnnotation, text, "is no JSON object of strings")
	}
	if faults := metav1validation.ValidateLabels(labels, field.NewPath("labels")); len(faults) > 0 {
		return nil, invalidAnnotation(ServiceAccountLabelsAnnotation, text, "has a label that is not valid")
	}
	return labels, nil
}

// parseTargetSecret returns the Secret of the target that gets the token; zero unless both annotations say so.
func parseTargetSecret(annotations map[string]string) (types.NamespacedName, error) {
	name := types.NamespacedName{
		Namespace: annotations[TargetSecretNamespaceAnnotation], Name: annotations[TargetSecretNameAnnotation],
	}
	if name.Namespace == "" || name.Name == "" {
		return types.NamespacedName{}, nil
	}
	if err := checkName(TargetSecretNameAnnotation, name.Name, validation.IsDNS1123Subdomain); err != nil {
		return types.NamespacedName{}, err
	}
	return name, checkName(TargetSecretNamespaceAnnotation, name.Namespace, validation.IsDNS1123Label)
}

func checkName(key, value string, check func(string) []string) error {
	if value == "" {
		return &inputError{reasonInvalidAnnotation, fmt.Sprintf("Annotation %s is missing or empty", key)}
	}
	if len(check(value)) > 0 {
		return invalidAnnotation(key, value, "is no valid name")
	}
	return nil
}
