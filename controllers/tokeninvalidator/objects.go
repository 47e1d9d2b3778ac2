package tokeninvalidator

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-hub/trellis/controllers/internal/multicluster"
	"github.com/trellis-hub/trellis/untrusted"
)

// secrets are those with a token of a ServiceAccount. A secret is kept of each.
var secrets = &multicluster.Objects{
	Kind:          corev1.SchemeGroupVersion.WithKind("Secret"),
	MetadataOnly:  true,
	FieldSelector: fields.OneTermEqualSelector("type", string(corev1.SecretTypeServiceAccountToken)),
	Transform:     func(obj client.Object) any { return secretOf(obj) },
	Form:          "tokens of ServiceAccounts",
}

// accounts are all ServiceAccounts. An account is kept of each.
var accounts = &multicluster.Objects{
	Kind:      corev1.SchemeGroupVersion.WithKind("ServiceAccount"),
	Fields:    [][]string{{"automountServiceAccountToken"}},
	Transform: func(obj client.Object) any { return accountOf(obj) },
	Form:      "ServiceAccounts that mount tokens",
}

// secret is what is needed of a Secret.
type secret struct {
	resourceVersion string
	account         string // the name of its ServiceAccount; empty: it has none
	purpose         bool   // it has PurposeLabel, of whatever value
	considered      bool   // it has ConsiderLabel
}

// secretOf returns what is needed. It shares no memory with the object.
func secretOf(obj client.Object) secret {
	labels := obj.GetLabels()
	_, purpose := labels[PurposeLabel]
	_, considered := labels[ConsiderLabel]
	return secret{
		resourceVersion: strings.Clone(untrusted.Token(obj.GetResourceVersion())),
		account:         strings.Clone(untrusted.Name(obj.GetAnnotations()[corev1.ServiceAccountNameKey])),
		purpose:         purpose,
		considered:      considered,
	}
}

// account is what is needed of a ServiceAccount.
type account struct {
	automount *bool  // automountServiceAccountToken
	skipped   bool   // it has SkipLabel
	skip      string // its value
}

// accountOf returns what is needed. It shares no memory with the object.
func accountOf(obj client.Object) account {
	skip, skipped := obj.GetLabels()[SkipLabel]
	a := account{skipped: skipped, skip: strings.Clone(untrusted.Token(skip))}
	content, ok := obj.(interface{ UnstructuredContent() map[string]any })
	if !ok {
		return a
	}
	value, _, err := unstructured.NestedFieldNoCopy(content.UnstructuredContent(), "automountServiceAccountToken")
	if automount, set := value.(bool); err == nil && set {
		a.automount = ptr.To(automount)
	}
	return a
}

// rejectsTokens reports whether the tokens in Secrets of the ServiceAccount are to be invalid.
func (a account) rejectsTokens() bool {
	return !a.skipped && a.automount != nil && !*a.automount
}

// aboutSecret has a Secret reconciled that comes or changes, if it is one of a ServiceAccount.
func aboutSecret(name types.NamespacedName, _, value any) []types.NamespacedName {
	if s, exists := value.(secret); !exists || s.account == "" {
		return nil
	}
	return []types.NamespacedName{name}
}

// aboutAccount has the Secrets of a ServiceAccount reconciled if its tokens may be valid now and were not before, or
// the other way round.
func aboutAccount(name types.NamespacedName, old, value any) []types.NamespacedName {
	before, existed := old.(account)
	after, exists := value.(account)
	if !existed || !exists || ptr.Equal(before.automount, after.automount) &&
		before.skipped == after.skipped && before.skip == after.skip {
		return nil
	}
	return []types.NamespacedName{{Namespace: name.Namespace, Name: accountPrefix + name.Name}}
}

// accountPrefix begins the names in requests for all Secrets of a ServiceAccount. No Secret has a name with a slash.
const accountPrefix = "serviceaccounts/"

// wholeTarget is the name in requests for all Secrets.
var wholeTarget = types.NamespacedName{}
