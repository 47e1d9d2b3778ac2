package pods

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/webhooks/admission"
)

// SeccompSkipLabel of a pod, of whatever value, leaves its seccomp profile as it is. It has no dash before "profile".
const SeccompSkipLabel = "seccompprofile.resources.gardener.cloud/skip"

// SeccompProfile gives pods without a seccomp profile that of the container runtime.
func SeccompProfile() admission.Webhook {
	return admission.Webhook{
		Name:     "seccomp-profile",
		Path:     "seccomp-profile",
		Settings: func(w *hubv1alpha1.TargetWebhooks) *hubv1alpha1.Webhook { return common(w.SeccompProfile) },
		Registration: admission.One(func(w *hubv1alpha1.TargetWebhooks) admission.Entry {
			return entry(admission.Namespaces(w), slices.Concat(admission.Without(SeccompSkipLabel), admission.NotServing()),
				condition("no-profile", `!has(object.spec.securityContext) || !has(object.spec.securityContext.seccompProfile) || `+
					`!has(object.spec.securityContext.seccompProfile.type) || object.spec.securityContext.seccompProfile.type == ""`))
		}),
		Combines: true,
		Handler: admission.Mutate(admission.Quietly(func(_ context.Context, _ *admission.Request, pod *corev1.Pod) error {
			SetSeccompProfile(pod)
			return nil
		})),
	}
}

// SetSeccompProfile sets the profile of a pod that has none. Those of containers are neither looked at nor changed.
func SetSeccompProfile(pod *corev1.Pod) {
	if c := pod.Spec.SecurityContext; c != nil && c.SeccompProfile != nil && c.SeccompProfile.Type != "" {
		return
	}
	if pod.Spec.SecurityContext == nil {
		pod.Spec.SecurityContext = &corev1.PodSecurityContext{}
	}
	pod.Spec.SecurityContext.SeccompProfile = &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}
}
