package controlplane

import (
	"context"
	"encoding/base64"
	"fmt"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/trellis-hub/trellis/untrusted"
	"github.com/trellis-hub/trellis/webhooks/controlplane/systemd"
	"github.com/trellis-hub/trellis/webhooks/extensions"
)

// What an OperatingSystemConfig has.
const (
	kubeletUnit       = "kubelet.service"
	kubeletFile       = "/var/lib/kubelet/config/kubelet"
	kernelFile        = "/etc/sysctl.d/99-k8s-general.conf"
	cloudProviderFile = "/var/lib/kubelet/cloudprovider.conf"

	poolLabel = "worker.gardener.cloud/pool"
)

// maxFile bounds files that are decoded.
const maxFile = 512 << 10

// nodes calls the methods of an Ensurer for the parts of an OperatingSystemConfig.
type nodes struct{ Ensurer }

func (n nodes) mutate(ctx context.Context, c *Context, updated, old *extensions.OperatingSystemConfig) error {
	// Without an old one, hooks get nil for its parts.
	var files *[]extensions.File
	var units *[]extensions.Unit
	if old != nil {
		files, units = &old.Spec.Files, &old.Spec.Units
	}
	switch updated.Spec.Purpose {
	case extensions.PurposeProvision:
		if err := n.EnsureAdditionalProvisionFiles(ctx, c, &updated.Spec.Files, files); err != nil {
			return err
		}
		return n.EnsureAdditionalProvisionUnits(ctx, c, &updated.Spec.Units, units)
	case extensions.PurposeReconcile:
		if old == nil {
			old = &extensions.OperatingSystemConfig{}
		}
		if err := n.kubelet(ctx, c, updated, old); err != nil {
			return err
		}
		if err := n.EnsureAdditionalFiles(ctx, c, &updated.Spec.Files, files); err != nil {
			return err
		}
		if err := n.EnsureAdditionalUnits(ctx, c, &updated.Spec.Units, units); err != nil {
			return err
		}
		if updated.Spec.CRIConfig == nil {
			return nil
		}
		return n.EnsureCRIConfig(ctx, c, updated.Spec.CRIConfig, old.Spec.CRIConfig)
	}
	return nil
}

// kubelet changes what is there of the kubelet already, and adds what there is none of.
func (n nodes) kubelet(ctx context.Context, c *Context, updated, old *extensions.OperatingSystemConfig) error {
	kubelet, err := kubeletVersion(ctx, c, updated.Labels[poolLabel])
	if err != nil {
		return err
	}
	if unit := content(updated.Spec.Units); unit != nil {
		if err := n.unit(ctx, c, kubelet, unit, content(old.Spec.Units)); err != nil {
			return fmt.Errorf("unit %s: %w", kubeletUnit, err)
		}
	}
	if file := inline(updated.Spec.Files, kubeletFile); file != nil {
		if err := n.configuration(ctx, c, kubelet, file, inline(old.Spec.Files, kubeletFile)); err != nil {
			return fmt.Errorf("file %s: %w", kubeletFile, err)
		}
	}
	if file := inline(updated.Spec.Files, kernelFile); file != nil {
		if err := n.kernel(ctx, c, file, inline(old.Spec.Files, kernelFile)); err != nil {
			return fmt.Errorf("file %s: %w", kernelFile, err)
		}
	}
	if !n.ShouldProvisionKubeletCloudProviderConfig(ctx, c, kubelet) {
		return nil
	}
	text := ""
	if err := n.EnsureKubeletCloudProviderConfig(ctx, c, kubelet, &text); err != nil {
		return fmt.Errorf("file %s: %w", cloudProviderFile, err)
	}
	if text != "" {
		put(&updated.Spec.Files, cloudProviderFile, text)
	}
	return nil
}

func kubeletVersion(ctx context.Context, c *Context, pool string) (*version.Version, error) {
	cluster, err := c.Cluster(ctx)
	if err != nil {
		return nil, err
	}
	shoot, err := cluster.Shoot()
	if err != nil {
		return nil, err
	}
	return shoot.KubeletVersion(pool)
}

func (n nodes) unit(ctx context.Context, c *Context, kubelet *version.Version, updated, old *string) error {
	options, err := systemd.Parse(*updated)
	if err != nil {
		return err
	}
	var oldOptions []systemd.Option
	if old != nil {
		if oldOptions, err = systemd.Parse(*old); err != nil {
			return fmt.Errorf("the old one: %w", err)
		}
	}
	changed, err := n.EnsureKubeletServiceUnitOptions(ctx, c, kubelet, slices.Clone(options), oldOptions)
	if err != nil {
		return err
	}
	if !slices.Equal(changed, options) {
		*updated = systemd.Format(changed)
	}
	return nil
}

func (n nodes) configuration(
	ctx context.Context, c *Context, kubelet *version.Version, updated, old *extensions.FileContentInline,
) error {
	configuration, err := kubeletConfiguration(updated)
	if err != nil {
		return err
	}
	var oldConfiguration map[string]any
	if old != nil {
		if oldConfiguration, err = kubeletConfiguration(old); err != nil {
			return fmt.Errorf("the old one: %w", err)
		}
	}
	before, err := kubeletConfiguration(updated) // a second time, to compare with
	if err != nil {
		return err
	}
	if err := n.EnsureKubeletConfiguration(ctx, c, kubelet, configuration, oldConfiguration); err != nil {
		return err
	}
	if reflect.DeepEqual(configuration, before) {
		return nil
	}
	document, err := yaml.Marshal(configuration)
	if err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	encode(updated, string(document))
	return nil
}

func (n nodes) kernel(ctx context.Context, c *Context, updated, old *extensions.FileContentInline) error {
	text, err := decoded(updated)
	if err != nil {
		return err
	}
	var oldText *string
	if old != nil {
		decodedOld, err := decoded(old)
		if err != nil {
			return fmt.Errorf("the old one: %w", err)
		}
		oldText = &decodedOld
	}
	changed := text
	if err := n.EnsureKubernetesGeneralConfiguration(ctx, c, &changed, oldText); err != nil {
		return err
	}
	if changed != "" && changed != text {
		encode(updated, changed)
	}
	return nil
}

// content is that of the unit of the kubelet; nil if there is none.
func content(units []extensions.Unit) *string {
	for i := range units {
		if units[i].Name == kubeletUnit {
			return units[i].Content
		}
	}
	return nil
}

// inline is the content of a file, if it is in the object; else nil.
func inline(files []extensions.File, path string) *extensions.FileContentInline {
	for i := range files {
		if files[i].Path == path {
			return files[i].Content.Inline
		}
	}
	return nil
}

// put has a file with a content, in the place of the one that is there already.
func put(files *[]extensions.File, path, text string) {
	file := extensions.File{
		Path: path, Permissions: ptr.To[int32](0o644),
		Content: extensions.FileContent{Inline: &extensions.FileContentInline{Encoding: extensions.EncodingBase64}},
	}
	encode(file.Content.Inline, text)
	for i := range *files {
		if (*files)[i].Path == path {
			(*files)[i] = file
			return
		}
	}
	*files = append(*files, file)
}

// decoded is the text of a file.
func decoded(file *extensions.FileContentInline) (string, error) {
	if len(file.Data) > maxFile {
		return "", fmt.Errorf("there are more than %d bytes", maxFile)
	}
	switch file.Encoding {
	case extensions.EncodingPlain:
		return file.Data, nil
	case extensions.EncodingBase64:
		text, err := base64.StdEncoding.DecodeString(file.Data)
		return string(text), err
	}
	return "", fmt.Errorf("the encoding %s is not known", untrusted.Name(file.Encoding))
}

// encode sets the text of a file in the encoding that it has.
func encode(file *extensions.FileContentInline, text string) {
	if file.Encoding == extensions.EncodingBase64 {
		text = base64.StdEncoding.EncodeToString([]byte(text))
	}
	file.Data = text
}

// configurationBounds are those of a KubeletConfiguration.
var configurationBounds = untrusted.Bounds{Bytes: 2 * maxFile, Elements: 20_000, Depth: 50}

func kubeletConfiguration(file *extensions.FileContentInline) (map[string]any, error) {
	text, err := decoded(file)
	if err != nil {
		return nil, err
	}
	document, err := yaml.YAMLToJSONStrict([]byte(text))
	if err != nil {
		return nil, fmt.Errorf("decode: %w", err)
	}
	if err := untrusted.Check(document, configurationBounds); err != nil {
		return nil, err
	}
	configuration := map[string]any{}
	if err := json.UnmarshalCaseSensitivePreserveInts(document, &configuration); err != nil {
		return nil, fmt.Errorf("decode: %w", err)
	}
	if configuration["kind"] != "KubeletConfiguration" ||
		configuration["apiVersion"] != "kubelet.config.k8s.io/v1beta1" {
		return nil, fmt.Errorf("it is no KubeletConfiguration of kubelet.config.k8s.io/v1beta1")
	}
	return configuration, nil
}
