package tokenrequestor

import resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"

// Keys of access Secrets.
const (
	// PurposeLabel with the value Purpose makes a Secret an access Secret.
	PurposeLabel = resourcesv1alpha1.PurposeLabel
	// Purpose is the value of PurposeLabel.
	Purpose = resourcesv1alpha1.PurposeTokenRequestor
	// ClassLabel says which instance is responsible, if Settings.Class is set.
	ClassLabel = resourcesv1alpha1.AccessClassLabel

	// ServiceAccountNameAnnotation names the ServiceAccount in the target.
	ServiceAccountNameAnnotation = "serviceaccount.resources.gardener.cloud/name"
	// ServiceAccountNamespaceAnnotation names its namespace, unless Settings.TargetNamespace does.
	ServiceAccountNamespaceAnnotation = "serviceaccount.resources.gardener.cloud/namespace"
	// ServiceAccountLabelsAnnotation has the labels of the ServiceAccount, as a JSON object of strings.
	ServiceAccountLabelsAnnotation = "serviceaccount.resources.gardener.cloud/labels"
	// ExpirationAnnotation is the lifetime that is asked for, a Go duration.
	ExpirationAnnotation = "serviceaccount.resources.gardener.cloud/token-expiration-duration"
	// RenewTimestampAnnotation is when the token is renewed. The controller writes it.
	RenewTimestampAnnotation = "serviceaccount.resources.gardener.cloud/token-renew-timestamp"
	// InjectCAAnnotation asks for the certificates of the target's API server, too.
	InjectCAAnnotation = "serviceaccount.resources.gardener.cloud/inject-ca-bundle"
	// TargetSecretNameAnnotation and TargetSecretNamespaceAnnotation name a Secret of the target that gets the token
	// instead.
	TargetSecretNameAnnotation      = "token-requestor.resources.gardener.cloud/target-secret-name"
	TargetSecretNamespaceAnnotation = "token-requestor.resources.gardener.cloud/target-secret-namespace"

	// LegacyFinalizer is what old versions of Gardener left on access Secrets.
	LegacyFinalizer = resourcesv1alpha1.TokenRequestorFinalizer

	// KeyToken, KeyCA and KeyKubeconfig are keys of the Secret's data.
	KeyToken      = "token"
	KeyCA         = "bundle.crt"
	KeyKubeconfig = "kubeconfig"
)
