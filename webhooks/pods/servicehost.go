package pods

import (
	"context"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/webhooks/admission"
)

const (
	// InjectLabel of a pod or its namespace, with exactly InjectDisabled, leaves the pod with the address of the
	// Service.
	InjectLabel = "apiserver-proxy.networking.gardener.cloud/inject"
	// InjectDisabled is the value of InjectLabel that leaves a pod as it is.
	InjectDisabled = "disable"

	hostVariable, portVariable = "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"

	// defaultPort is what kubelets set.
	defaultPort = 443

	// serviceHostTimeout is short: pods start as well without.
	serviceHostTimeout = 2
)

// ServiceHost has pods talk to the API server by its own name, not through a proxy of their node. In every namespace,
// also those of users.
func ServiceHost() admission.Webhook {
	return admission.Webhook{
		Name: "kubernetes-service-host",
		Path: "kubernetes-service-host",
		Settings: func(w *hubv1alpha1.TargetWebhooks) *hubv1alpha1.Webhook {
			if w.KubernetesServiceHost == nil {
				return nil
			}
			return &w.KubernetesServiceHost.Webhook
		},
		Registration: admission.One(func(*hubv1alpha1.TargetWebhooks) admission.Entry {
			enabled := admission.IsNot(InjectLabel, InjectDisabled)
			e := entry(enabled, enabled)
			e.TimeoutSeconds = serviceHostTimeout
			return e
		}),
		Handler: admission.Mutate(admission.Quietly(func(_ context.Context, r *admission.Request, pod *corev1.Pod) error {
			own := r.Settings.KubernetesServiceHost
			if own == nil || ptr.Deref(own.Host, "") == "" {
				return nil
			}
			SetServiceHost(pod, *own.Host, ptr.Deref(own.Port, defaultPort))
			return nil
		})),
	}
}

// SetServiceHost gives the containers of a pod the API server's host if they do not have one, and these its port if it
// is another one than kubelets set.
func SetServiceHost(pod *corev1.Pod, host string, port int32) {
	eachContainer(pod, func(c *corev1.Container) {
		if hasVariable(c, hostVariable) {
			return
		}
		c.Env = append(c.Env, corev1.EnvVar{Name: hostVariable, Value: host})
		if port != defaultPort && !hasVariable(c, portVariable) {
			c.Env = append(c.Env, corev1.EnvVar{Name: portVariable, Value: strconv.Itoa(int(port))})
		}
	})
}

func hasVariable(c *corev1.Container, name string) bool {
	return slices.ContainsFunc(c.Env, func(v corev1.EnvVar) bool { return v.Name == name })
}
