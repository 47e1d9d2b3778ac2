package example

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-hub/trellis/webhooks/admission"
	"github.com/trellis-hub/trellis/webhooks/controlplane"
	"github.com/trellis-hub/trellis/webhooks/controlplane/ensure"
	"github.com/trellis-hub/trellis/webhooks/controlplane/systemd"
)

// Name is that of the provider: the value of the labels of namespaces that its webhooks are for.
const Name = "example"

const (
	// CloudVolume is the ConfigMap with the configuration of the cloud, and the volume of it.
	CloudVolume = "cloud-provider-config"
	// CloudPath is where kube-controller-manager finds it.
	CloudPath = "/etc/kubernetes/cloudprovider"
	// ProtocolAnnotation, on a Service of an API server, has the load balancer forward connections unchanged.
	ProtocolAnnotation = "service.example.com/load-balancer-protocol"
)

// Webhooks returns those of the provider. readerOf returns what reads from the cluster of a request.
func Webhooks(
	readerOf func(context.Context, *admission.Request) (client.Reader, error),
) ([]*controlplane.Webhook, error) {
	shoot, err := controlplane.New(controlplane.Definition{
		Component: "provider-" + Name, Provider: Name, Kind: controlplane.Shoot, ReaderOf: readerOf,
		Mutators:       controlplane.Mutators(InShoot{}),
		ObjectSelector: &metav1.LabelSelector{MatchLabels: map[string]string{controlplane.MutatedLabel: "true"}},
	})
	if err != nil {
		return nil, err //nolint:wrapcheck // it names the webhook
	}
	seed, err := controlplane.New(controlplane.Definition{
		Component: "provider-" + Name, Provider: Name, Kind: controlplane.Seed,
		Mutators: controlplane.MutatorsOf(InSeed{}, "Service"),
	})
	return []*controlplane.Webhook{shoot, seed}, err //nolint:wrapcheck // it names the webhook
}

// InShoot is for control planes of shoots whose infrastructure is the provider's.
type InShoot struct{ controlplane.NoopEnsurer }

// EnsureKubeControllerManagerDeployment leaves cloud resources to the provider's own controller manager, and mounts its
// configuration, which volume plugins read.
func (InShoot) EnsureKubeControllerManagerDeployment(
	_ context.Context, _ *controlplane.Context, updated, _ *appsv1.Deployment,
) error {
	pod := &updated.Spec.Template.Spec
	container := ensure.ContainerNamed(pod.Containers, "kube-controller-manager")
	if container == nil {
		return fmt.Errorf("deployment %s has no container kube-controller-manager", updated.Name)
	}
	container.Command = ensure.Flag(container.Command, "--cloud-provider=", "external")
	container.Command = ensure.Flag(container.Command, "--cloud-config=", CloudPath+"/cloudprovider.conf")
	container.VolumeMounts = ensure.VolumeMount(container.VolumeMounts, corev1.VolumeMount{
		Name: CloudVolume, MountPath: CloudPath,
	})
	pod.Volumes = ensure.Volume(pod.Volumes, corev1.Volume{
		Name: CloudVolume,
		VolumeSource: corev1.VolumeSource{
			ConfigMap: &corev1.ConfigMapVolumeSource{
				LocalObjectReference: corev1.LocalObjectReference{Name: CloudVolume},
			},
		},
	})
	return nil
}

// EnsureKubeletServiceUnitOptions has kubelets leave their addresses and zones to that controller manager.
func (InShoot) EnsureKubeletServiceUnitOptions(
	_ context.Context, _ *controlplane.Context, _ *version.Version, updated, _ []systemd.Option,
) ([]systemd.Option, error) {
	return ensure.CommandLine(updated, func(words []string) []string {
		return ensure.Flag(words, "--cloud-provider=", "external")
	}), nil
}

// InSeed is for control planes that run on the provider's infrastructure.
type InSeed struct{ controlplane.NoopEnsurer }

// EnsureKubeAPIServerService has the load balancer forward connections unchanged.
func (InSeed) EnsureKubeAPIServerService(
	_ context.Context, _ *controlplane.Context, updated, _ *corev1.Service,
) error {
	if updated.Spec.Type == corev1.ServiceTypeLoadBalancer {
		updated.Annotations = ensure.Entry(updated.Annotations, ProtocolAnnotation, "tcp")
	}
	return nil
}
