package registration

import (
	"errors"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/trellis-hub/trellis/clustercache/internal/connection"
	"github.com/trellis-hub/trellis/clustercache/kubeconfig"
)

// lastApplied is where kubectl repeats an object's content, that of Secrets included.
const lastApplied = corev1.LastAppliedConfigAnnotation

// Registration is what is known of a target from its Secret, or from a static configuration. It is immutable.
type Registration struct {
	SecretName          string
	UID                 types.UID
	ResourceVersion     string
	Labels, Annotations map[string]string

	Access connection.Access      // how to connect; empty if Fault is set
	Fault  *kubeconfig.FaultError // why the registration cannot be used
}

// Trim removes what a registration does not need of a Secret.
func Trim(secret *corev1.Secret) {
	delete(secret.Annotations, lastApplied)
	kubeconfig.Trim(secret)
}

// describe describes a registration from the metadata of its Secret.
func describe(secret *corev1.Secret) *Registration {
	annotations := maps.Clone(secret.Annotations)
	delete(annotations, lastApplied)
	return &Registration{
		SecretName:      secret.Name,
		UID:             secret.UID,
		ResourceVersion: secret.ResourceVersion,
		Labels:          maps.Clone(secret.Labels),
		Annotations:     annotations,
	}
}

// Read reads a registration Secret.
func Read(secret *corev1.Secret, policy kubeconfig.Policy) *Registration {
	r := describe(secret)
	config, err := kubeconfig.FromSecret(secret, policy)
	if err != nil {
		if !errors.As(err, &r.Fault) {
			r.Fault = &kubeconfig.FaultError{Reason: kubeconfig.ReasonInvalid, Message: "the kubeconfig cannot be read"}
		}
		return r
	}
	r.Access = connection.Access{Kubeconfig: config}
	return r
}

// Same reports whether two registrations come from the same version of the same Secret, and are as good as each other.
func (r *Registration) Same(o *Registration) bool {
	fault := r.Fault == o.Fault || r.Fault != nil && o.Fault != nil && *r.Fault == *o.Fault
	return r.UID == o.UID && r.ResourceVersion == o.ResourceVersion && fault
}
