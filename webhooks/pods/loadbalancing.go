package pods

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	"github.com/trellis-hub/trellis/untrusted"
	"github.com/trellis-hub/trellis/webhooks/admission"
)

const (
	// kubeconfigPrefix is that of the Secrets with the kubeconfig that many pods share.
	kubeconfigPrefix = "generic-token-kubeconfig"
	// gatewayConfigMap of a namespace says which hosts its pods reach through which gateway.
	gatewayConfigMap = "istio-internal-load-balancing"
	hostsKey         = "hosts"
	gatewayKey       = "istio-namespace"
	gatewayService   = "istio-ingressgateway-internal"
	// What allows pods to talk to the gateway is a label for policies of its namespace.
	networkLabelDomain = "networking.resources.gardener.cloud/"
	networkLabelFormat = "to-%s-" + gatewayService + "-tcp-9443"
	networkAllowed     = "allowed"
	// Names of labels that are longer than maxLabelName get a digest in place of their end.
	maxLabelName, shortLabelName, labelDigest = 63, 57, 5

	// maxHosts bounds what one ConfigMap can add to pods.
	maxHosts = 100
)

// LoadBalancing has pods of control planes reach their API server through the internal gateway, which spreads their
// requests over all replicas.
func LoadBalancing() admission.Webhook {
	const name = "pod-%skube-apiserver-load-balancing"
	return admission.Webhook{
		Name: fmt.Sprintf(name, ""),
		Path: "pod-kube-apiserver-load-balancing",
		Settings: func(w *hubv1alpha1.TargetWebhooks) *hubv1alpha1.Webhook {
			if w.PodKubeAPIServerLoadBalancing == nil {
				return nil
			}
			return &w.PodKubeAPIServerLoadBalancing.Webhook
		},
		Registration: func(w *hubv1alpha1.TargetWebhooks) []admission.Entry {
			usesKubeconfig := condition("kubeconfig", `has(object.spec.volumes) && object.spec.volumes.exists(v, `+
				`(has(v.secret) && has(v.secret.secretName) && v.secret.secretName.startsWith("generic-token-kubeconfig")) || `+
				`(has(v.projected) && has(v.projected.sources) && v.projected.sources != null && v.projected.sources.exists(s, `+
				`has(s.secret) && has(s.secret.name) && s.secret.name.startsWith("generic-token-kubeconfig"))))`)
			entries := []admission.Entry{entry(admission.Is("gardener.cloud/role", "shoot"), nil, usesKubeconfig)}
			if ptr.Deref(w.PodKubeAPIServerLoadBalancing.VirtualGarden, false) {
				virtual := entry(admission.Is(corev1.LabelMetadataName, "garden"), admission.NotServing(), usesKubeconfig)
				virtual.Name = fmt.Sprintf(name, "virtual-garden-")
				entries = append(entries, virtual)
			}
			return entries
		},
		Handler: admission.Mutate(admission.Quietly(balance)),
	}
}

func balance(ctx context.Context, request *admission.Request, pod *corev1.Pod) error {
	if !slices.ContainsFunc(pod.Spec.Volumes, hasKubeconfig) {
		return nil
	}
	name := types.NamespacedName{Namespace: request.Namespace, Name: gatewayConfigMap}
	config, err := request.State.ConfigMap(ctx, name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading ConfigMap %s: %w", name, err)
	}
	if config.Data[hostsKey] == "" {
		return admission.Refuse("ConfigMap %s has no %s", name, hostsKey)
	}
	hosts := strings.Split(config.Data[hostsKey], ",")
	if len(hosts) > maxHosts {
		return admission.Refuse("ConfigMap %s has more than %d %s", name, maxHosts, hostsKey)
	}
	gateway := types.NamespacedName{Namespace: config.Data[gatewayKey], Name: gatewayService}
	service, err := request.State.Service(ctx, gateway)
	if err != nil {
		return fmt.Errorf("reading Service %s: %w", untrusted.Name(gateway.String()), err)
	}
	for _, ip := range service.Spec.ClusterIPs {
		if !isAlias(pod, ip, hosts) {
			pod.Spec.HostAliases = append(pod.Spec.HostAliases, corev1.HostAlias{IP: ip, Hostnames: slices.Clone(hosts)})
		}
	}
	if pod.Labels == nil {
		pod.Labels = map[string]string{}
	}
	pod.Labels[networkLabelDomain+networkLabel(gateway.Namespace)] = networkAllowed
	return nil
}

func hasKubeconfig(v corev1.Volume) bool {
	if v.Secret != nil && strings.HasPrefix(v.Secret.SecretName, kubeconfigPrefix) {
		return true
	}
	return v.Projected != nil && slices.ContainsFunc(v.Projected.Sources, func(s corev1.VolumeProjection) bool {
		return s.Secret != nil && strings.HasPrefix(s.Secret.Name, kubeconfigPrefix)
	})
}

// isAlias reports whether hosts have an address already.
func isAlias(pod *corev1.Pod, ip string, hosts []string) bool {
	return slices.ContainsFunc(pod.Spec.HostAliases, func(alias corev1.HostAlias) bool {
		return alias.IP == ip && !slices.ContainsFunc(hosts, func(host string) bool {
			return !slices.Contains(alias.Hostnames, host)
		})
	})
}

// networkLabel is the name of the label by which pods may talk to the gateway of a namespace.
func networkLabel(namespace string) string {
	name := fmt.Sprintf(networkLabelFormat, namespace)
	if len(name) <= maxLabelName {
		return name
	}
	digest := sha256.Sum256([]byte(name))
	return name[:shortLabelName] + "-" + hex.EncodeToString(digest[:])[:labelDigest]
}
