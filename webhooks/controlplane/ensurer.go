package controlplane

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/trellis-hub/trellis/webhooks/controlplane/systemd"
	"github.com/trellis-hub/trellis/webhooks/extensions"
)

// Ensurer changes what Gardener deploys for a control plane. Embed NoopEnsurer and write the methods for what is to be
// changed. Each may be called again for what it has returned, and must then change nothing.
//
// updated is changed in place; old is what is stored, and nil while an object is created or has no such part. An error
// refuses the object with its text.
type Ensurer interface {
	EnsureKubeAPIServerService(ctx context.Context, c *Context, updated, old *corev1.Service) error
	EnsureKubeAPIServerDeployment(ctx context.Context, c *Context, updated, old *appsv1.Deployment) error
	EnsureKubeControllerManagerDeployment(ctx context.Context, c *Context, updated, old *appsv1.Deployment) error
	EnsureKubeSchedulerDeployment(ctx context.Context, c *Context, updated, old *appsv1.Deployment) error
	EnsureClusterAutoscalerDeployment(ctx context.Context, c *Context, updated, old *appsv1.Deployment) error
	EnsureMachineControllerManagerDeployment(ctx context.Context, c *Context, updated, old *appsv1.Deployment) error
	EnsureGardenerResourceManagerDeployment(ctx context.Context, c *Context, updated, old *appsv1.Deployment) error
	EnsureVPNSeedServerDeployment(ctx context.Context, c *Context, updated, old *appsv1.Deployment) error
	EnsureVPNSeedServerStatefulSet(ctx context.Context, c *Context, updated, old *appsv1.StatefulSet) error
	// EnsureMachineControllerManagerVPA changes a VerticalPodAutoscaler.
	EnsureMachineControllerManagerVPA(ctx context.Context, c *Context, updated, old *unstructured.Unstructured) error
	// EnsureETCD changes an Etcd of druid.gardener.cloud, main or events.
	EnsureETCD(ctx context.Context, c *Context, updated, old *unstructured.Unstructured) error

	// EnsureKubeletServiceUnitOptions returns the options of kubelet.service.
	EnsureKubeletServiceUnitOptions(
		ctx context.Context, c *Context, kubelet *version.Version, updated, old []systemd.Option,
	) ([]systemd.Option, error)
	// EnsureKubeletConfiguration changes a KubeletConfiguration of kubelet.config.k8s.io/v1beta1.
	EnsureKubeletConfiguration(
		ctx context.Context, c *Context, kubelet *version.Version, updated, old map[string]any,
	) error
	// EnsureKubernetesGeneralConfiguration changes the kernel settings of nodes. If it leaves nothing, they stay as
	// they were.
	EnsureKubernetesGeneralConfiguration(ctx context.Context, c *Context, updated, old *string) error
	// ShouldProvisionKubeletCloudProviderConfig says whether nodes get a configuration of the cloud provider.
	ShouldProvisionKubeletCloudProviderConfig(ctx context.Context, c *Context, kubelet *version.Version) bool
	// EnsureKubeletCloudProviderConfig writes the configuration of the cloud provider. Without content there is none.
	EnsureKubeletCloudProviderConfig(ctx context.Context, c *Context, kubelet *version.Version, content *string) error
	EnsureAdditionalFiles(ctx context.Context, c *Context, updated, old *[]extensions.File) error
	EnsureAdditionalUnits(ctx context.Context, c *Context, updated, old *[]extensions.Unit) error
	// EnsureCRIConfig changes the configuration of the container runtime, if there is one.
	EnsureCRIConfig(ctx context.Context, c *Context, updated, old *extensions.CRIConfig) error

	// EnsureAdditionalProvisionFiles and EnsureAdditionalProvisionUnits are for what bootstraps a machine.
	EnsureAdditionalProvisionFiles(ctx context.Context, c *Context, updated, old *[]extensions.File) error
	EnsureAdditionalProvisionUnits(ctx context.Context, c *Context, updated, old *[]extensions.Unit) error
}

// NoopEnsurer changes nothing.
type NoopEnsurer struct{}

var _ Ensurer = NoopEnsurer{}

// EnsureKubeAPIServerService implements Ensurer.
func (NoopEnsurer) EnsureKubeAPIServerService(context.Context, *Context, *corev1.Service, *corev1.Service) error {
	return nil
}

// EnsureKubeAPIServerDeployment implements Ensurer.
func (NoopEnsurer) EnsureKubeAPIServerDeployment(
	context.Context, *Context, *appsv1.Deployment, *appsv1.Deployment,
) error {
	return nil
}

// EnsureKubeControllerManagerDeployment implements Ensurer.
func (NoopEnsurer) EnsureKubeControllerManagerDeployment(
	context.Context, *Context, *appsv1.Deployment, *appsv1.Deployment,
) error {
	return nil
}

// EnsureKubeSchedulerDeployment implements Ensurer.
func (NoopEnsurer) EnsureKubeSchedulerDeployment(
	context.Context, *Context, *appsv1.Deployment, *appsv1.Deployment,
) error {
	return nil
}

// EnsureClusterAutoscalerDeployment implements Ensurer.
func (NoopEnsurer) EnsureClusterAutoscalerDeployment(
	context.Context, *Context, *appsv1.Deployment, *appsv1.Deployment,
) error {
	return nil
}

// EnsureMachineControllerManagerDeployment implements Ensurer.
func (NoopEnsurer) EnsureMachineControllerManagerDeployment(
	context.Context, *Context, *appsv1.Deployment, *appsv1.Deployment,
) error {
	return nil
}

// EnsureGardenerResourceManagerDeployment implements Ensurer.
func (NoopEnsurer) EnsureGardenerResourceManagerDeployment(
	context.Context, *Context, *appsv1.Deployment, *appsv1.Deployment,
) error {
	return nil
}

// EnsureVPNSeedServerDeployment implements Ensurer.
func (NoopEnsurer) EnsureVPNSeedServerDeployment(
	context.Context, *Context, *appsv1.Deployment, *appsv1.Deployment,
) error {
	return nil
}

// EnsureVPNSeedServerStatefulSet implements Ensurer.
func (NoopEnsurer) EnsureVPNSeedServerStatefulSet(
	context.Context, *Context, *appsv1.StatefulSet, *appsv1.StatefulSet,
) error {
	return nil
}

// EnsureMachineControllerManagerVPA implements Ensurer.
func (NoopEnsurer) EnsureMachineControllerManagerVPA(
	context.Context, *Context, *unstructured.Unstructured, *unstructured.Unstructured,
) error {
	return nil
}

// EnsureETCD implements Ensurer.
func (NoopEnsurer) EnsureETCD(
	context.Context, *Context, *unstructured.Unstructured, *unstructured.Unstructured,
) error {
	return nil
}

// EnsureKubeletConfiguration implements Ensurer.
func (NoopEnsurer) EnsureKubeletConfiguration(
	context.Context, *Context, *version.Version, map[string]any, map[string]any,
) error {
	return nil
}

// EnsureKubernetesGeneralConfiguration implements Ensurer.
func (NoopEnsurer) EnsureKubernetesGeneralConfiguration(context.Context, *Context, *string, *string) error {
	return nil
}

// EnsureKubeletCloudProviderConfig implements Ensurer.
func (NoopEnsurer) EnsureKubeletCloudProviderConfig(context.Context, *Context, *version.Version, *string) error {
	return nil
}

// EnsureAdditionalFiles implements Ensurer.
func (NoopEnsurer) EnsureAdditionalFiles(context.Context, *Context, *[]extensions.File, *[]extensions.File) error {
	return nil
}

// EnsureAdditionalUnits implements Ensurer.
func (NoopEnsurer) EnsureAdditionalUnits(context.Context, *Context, *[]extensions.Unit, *[]extensions.Unit) error {
	return nil
}

// EnsureCRIConfig implements Ensurer.
func (NoopEnsurer) EnsureCRIConfig(context.Context, *Context, *extensions.CRIConfig, *extensions.CRIConfig) error {
	return nil
}

// EnsureAdditionalProvisionFiles implements Ensurer.
func (NoopEnsurer) EnsureAdditionalProvisionFiles(
	context.Context, *Context, *[]extensions.File, *[]extensions.File,
) error {
	return nil
}

// EnsureAdditionalProvisionUnits implements Ensurer.
func (NoopEnsurer) EnsureAdditionalProvisionUnits(
	context.Context, *Context, *[]extensions.Unit, *[]extensions.Unit,
) error {
	return nil
}

// EnsureKubeletServiceUnitOptions implements Ensurer.
func (NoopEnsurer) EnsureKubeletServiceUnitOptions(
	_ context.Context, _ *Context, _ *version.Version, updated, _ []systemd.Option,
) ([]systemd.Option, error) {
	return updated, nil
}

// ShouldProvisionKubeletCloudProviderConfig implements Ensurer.
func (NoopEnsurer) ShouldProvisionKubeletCloudProviderConfig(context.Context, *Context, *version.Version) bool {
	return false
}
