package pods

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/webhooks/admission"
)

// SchedulerName sets the scheduler of pods that do not name one. In every namespace: a cluster whose pods are to be
// packed tightly has its own scheduler for all.
func SchedulerName() admission.Webhook {
	return admission.Webhook{
		Name: "pod-scheduler-name",
		Path: "default-pod-scheduler-name",
		Settings: func(w *hubv1alpha1.TargetWebhooks) *hubv1alpha1.Webhook {
			if w.PodSchedulerName == nil {
				return nil
			}
			return &w.PodSchedulerName.Webhook
		},
		Registration: admission.One(func(*hubv1alpha1.TargetWebhooks) admission.Entry {
			return entry(nil, nil, condition("default-scheduler",
				`!has(object.spec.schedulerName) || object.spec.schedulerName in ["", "default-scheduler"]`))
		}),
		Handler: admission.Mutate(admission.Quietly(func(_ context.Context, r *admission.Request, pod *corev1.Pod) error {
			name := corev1.DefaultSchedulerName
			if own := r.Settings.PodSchedulerName; own != nil {
				name = ptr.Deref(own.SchedulerName, name)
			}
			SetSchedulerName(pod, name)
			return nil
		})),
	}
}

// SetSchedulerName sets the scheduler of a pod without one. The default one counts as none: API servers have set it
// before a webhook gets the pod.
func SetSchedulerName(pod *corev1.Pod, name string) {
	if pod.Spec.SchedulerName == "" || pod.Spec.SchedulerName == corev1.DefaultSchedulerName {
		pod.Spec.SchedulerName = name
	}
}
