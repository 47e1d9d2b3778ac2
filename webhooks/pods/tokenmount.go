package pods

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/untrusted"
	"github.com/trellis-hub/trellis/webhooks/admission"
)

const (
	tokenMountSkipLabel = "projected-token-mount.resources.gardener.cloud/skip"
	// expirationAnnotation of a pod is how long its token is valid, in seconds.
	expirationAnnotation = "projected-token-mount.resources.gardener.cloud/expiration-seconds"

	// tokenVolumePrefix is that of the volumes by which Kubernetes itself mounts tokens.
	tokenVolumePrefix = "kube-api-access-"
	tokenVolume       = tokenVolumePrefix + "gardener"
	tokenPath         = "/var/run/secrets/kubernetes.io/serviceaccount"

	defaultServiceAccount  = "default"
	defaultTokenExpiration = 12 * 60 * 60
)

// TokenMount gives pods a token that expires, if their ServiceAccount has automountServiceAccountToken: false.
func TokenMount() admission.Webhook {
	return admission.Webhook{
		Name: "projected-token-mount",
		Path: "mount-projected-service-account-token",
		Settings: func(w *hubv1alpha1.TargetWebhooks) *hubv1alpha1.Webhook {
			if w.ProjectedTokenMount == nil {
				return nil
			}
			return &w.ProjectedTokenMount.Webhook
		},
		Registration: admission.One(func(w *hubv1alpha1.TargetWebhooks) admission.Entry {
			return entry(admission.Namespaces(w),
				slices.Concat(admission.Without(tokenMountSkipLabel), admission.NotServing()),
				condition("service-account",
					`has(object.spec.serviceAccountName) && !(object.spec.serviceAccountName in ["", "default"])`),
				condition("automount",
					`!has(object.spec.automountServiceAccountToken) || object.spec.automountServiceAccountToken`),
				condition("no-token", `!has(object.spec.volumes) || `+
					`!object.spec.volumes.exists(v, v.name.startsWith("kube-api-access-"))`))
		}),
		Combines: true,
		Handler:  admission.Mutate(admission.Quietly(mountToken)),
	}
}

func mountToken(ctx context.Context, request *admission.Request, pod *corev1.Pod) error {
	name := pod.Spec.ServiceAccountName
	if name == "" || name == defaultServiceAccount || !ptr.Deref(pod.Spec.AutomountServiceAccountToken, true) ||
		slices.ContainsFunc(pod.Spec.Volumes, isTokenVolume) {
		return nil
	}
	account, err := request.State.ServiceAccount(ctx, types.NamespacedName{Namespace: request.Namespace, Name: name})
	if err != nil {
		return fmt.Errorf("reading ServiceAccount %s: %w", untrusted.Name(name), err)
	}
	if ptr.Deref(account.AutomountServiceAccountToken, true) {
		return nil // the API server mounts one itself
	}
	expiration := int64(defaultTokenExpiration)
	if own := request.Settings.ProjectedTokenMount; own != nil && own.ExpirationSeconds != nil {
		expiration = *own.ExpirationSeconds
	}
	if text, is := pod.Annotations[expirationAnnotation]; is {
		if expiration, err = strconv.ParseInt(text, 10, 64); err != nil {
			return admission.Refuse("annotation %s: %q is no number of seconds", expirationAnnotation, untrusted.Name(text))
		}
	}
	pod.Spec.Volumes = append(pod.Spec.Volumes, volumeWithToken(expiration))
	eachContainer(pod, func(c *corev1.Container) {
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: tokenVolume, MountPath: tokenPath, ReadOnly: true})
	})
	return nil
}

func isTokenVolume(v corev1.Volume) bool { return strings.HasPrefix(v.Name, tokenVolumePrefix) }

// volumeWithToken has what Kubernetes itself mounts, with another expiration.
func volumeWithToken(expiration int64) corev1.Volume {
	return corev1.Volume{Name: tokenVolume, VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
		DefaultMode: ptr.To[int32](0o644),
		Sources: []corev1.VolumeProjection{
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{ExpirationSeconds: &expiration, Path: "token"}},
			{ConfigMap: &corev1.ConfigMapProjection{
				LocalObjectReference: corev1.LocalObjectReference{Name: "kube-root-ca.crt"},
				Items:                []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}},
			}},
			{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{{
				Path:     "namespace",
				FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.namespace"},
			}}}},
		},
	}}}
}
