package kubeconfig

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/secret"
)

// ClusterNameLabel marks registration Secrets. Its value is the name of the target.
const ClusterNameLabel = clusterv1.ClusterNameLabel

// alternativeDataName is the data key that is accepted beside the one of Cluster API.
const alternativeDataName = "kubeconfig"

// TargetOf returns the target that a Secret of this name would register, or false if the name is none of a
// registration. Since a Secret's name never changes, this is the same for all versions of a Secret, whatever its
// labels.
func TargetOf(secretName types.NamespacedName) (types.NamespacedName, bool) {
	cluster, purpose, err := secret.ParseSecretName(secretName.Name)
	if err != nil || purpose != secret.Kubeconfig || cluster == "" {
		return types.NamespacedName{}, false
	}
	return types.NamespacedName{Namespace: secretName.Namespace, Name: cluster}, true
}

// IsRegistration reports whether a Secret registers a target: its name must be exactly the value of its cluster-name
// label followed by "-kubeconfig". The other Secrets of Cluster API bear the same label and are no registrations.
func IsRegistration(s *corev1.Secret) bool {
	cluster := s.Labels[ClusterNameLabel]
	return cluster != "" && s.Name == secret.Name(cluster, secret.Kubeconfig)
}

// FromSecret reads the kubeconfig of a registration Secret. The error is always a *FaultError.
func FromSecret(s *corev1.Secret, policy Policy) (*Config, error) {
	if _, content, ok := contentOf(s); ok {
		return Parse(content, policy)
	}
	if droppedContent(s) {
		return nil, tooLong()
	}
	return nil, invalidSecret("the Secret has no kubeconfig: neither the key %q nor %q has content",
		secret.KubeconfigDataName, alternativeDataName)
}

// KeyOf returns the key of a registration Secret whose content FromSecret reads, and false if there is none.
func KeyOf(s *corev1.Secret) (key string, found bool) {
	key, _, found = contentOf(s)
	return key, found
}
