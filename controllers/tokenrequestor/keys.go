package tokenrequestor

// Keys of access Secrets.
const (
	// PurposeLabel with the value Purpose makes a Secret an access Secret.
	PurposeLabel = "resources.gardener.cloud/purpose"
	// Purpose is the value of PurposeLabel.
	Purpose = "token-requestor"
	// ClassLabel says which instance is responsible, if Settings.Class is set.
	ClassLabel = "resources.gardener.cloud/class"

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
	LegacyFinalizer = "resources.gardener.cloud/token-requestor"

	// KeyToken, KeyCA and KeyKubeconfig are keys of the Secret's data.
	KeyToken      = "token"
	KeyCA         = "bundle.crt"
	KeyKubeconfig = "kubeconfig"
)
