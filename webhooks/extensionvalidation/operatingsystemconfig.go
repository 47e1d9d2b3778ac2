package extensionvalidation

import (
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/trellis-hub/trellis/untrusted"
	"github.com/trellis-hub/trellis/webhooks/extensions"
)

// operatingSystemConfigs have rules for the part of their status, too, that adds to the spec.
func operatingSystemConfigs() kind {
	k := of("OperatingSystemConfig", "operatingsystemconfigs", true, nil,
		func(o *extensions.OperatingSystemConfigSpec) []immutable {
			return []immutable{{"type", o.Type}, {"purpose", o.Purpose}}
		})
	k.faults = func(object *stored) (field.ErrorList, error) {
		spec, err := decode[extensions.OperatingSystemConfigSpec](object.Spec)
		if err != nil {
			return nil, err
		}
		status, err := decode[extensions.OperatingSystemConfigStatus](object.Status)
		if err != nil {
			return nil, err
		}
		return operatingSystemConfig(spec, status), nil
	}
	return k
}

func operatingSystemConfig(
	spec *extensions.OperatingSystemConfigSpec, status *extensions.OperatingSystemConfigStatus,
) field.ErrorList {
	path, statusPath := field.NewPath("spec"), field.NewPath("status")
	faults := required(path, [2]string{"purpose", spec.Purpose})
	if spec.Purpose != "" {
		faults = append(faults,
			oneOf(path.Child("purpose"), spec.Purpose, extensions.PurposeProvision, extensions.PurposeReconcile)...)
	}
	if spec.CRIConfig != nil {
		faults = append(faults, criConfig(path.Child("criConfig"), spec)...)
	}
	paths := map[string]bool{}
	for _, files := range [][]extensions.File{spec.Files, status.ExtensionFiles} {
		for _, f := range files {
			paths[f.Path] = true
		}
	}
	faults = append(faults, unitFaults(path.Child("units"), spec.Units, paths)...)
	faults = append(faults, fileFaults(path.Child("files"), spec.Files)...)
	faults = append(faults, unitFaults(statusPath.Child("extensionUnits"), status.ExtensionUnits, paths)...)
	return append(faults, fileFaults(statusPath.Child("extensionFiles"), status.ExtensionFiles)...)
}

func unitFaults(path *field.Path, units []extensions.Unit, files map[string]bool) (faults field.ErrorList) {
	for i := range units {
		unit, path := &units[i], path.Index(i)
		faults = append(faults, required(path, [2]string{"name", unit.Name})...)
		for i, dropIn := range unit.DropIns {
			faults = append(faults, required(path.Child("dropIns").Index(i),
				[2]string{"name", dropIn.Name}, [2]string{"content", dropIn.Content})...)
		}
		for i, file := range unit.FilePaths {
			if !files[file] {
				faults = append(faults, field.NotFound(path.Child("filePaths").Index(i), untrusted.Name(file)))
			}
		}
		if len(faults) > maxFaults {
			break
		}
	}
	return faults
}

func fileFaults(path *field.Path, files []extensions.File) (faults field.ErrorList) {
	// hosts are those that a path has been seen for; the empty one stands for all.
	hosts := map[string]map[string]bool{}
	for i := range files {
		file, path := &files[i], path.Index(i)
		faults = append(faults, required(path, [2]string{"path", file.Path})...)
		faults = append(faults, contentFaults(path.Child("content"), &file.Content)...)
		host := ""
		if file.HostName != nil {
			host = *file.HostName
			faults = append(faults, subdomain(path.Child("hostName"), host)...)
		}
		others := hosts[file.Path]
		if others == nil {
			others = map[string]bool{}
			hosts[file.Path] = others
		}
		if len(others) > 0 && (host == "" || others[""] || others[host]) {
			faults = append(faults, field.Duplicate(path.Child("path"), untrusted.Name(file.Path)))
		}
		others[host] = true
		if len(faults) > maxFaults {
			break
		}
	}
	return faults
}

func contentFaults(path *field.Path, content *extensions.FileContent) (faults field.ErrorList) {
	sources := 0
	if ref := content.SecretRef; ref != nil {
		sources++
		faults = append(faults,
			required(path.Child("secretRef"), [2]string{"name", ref.Name}, [2]string{"dataKey", ref.DataKey})...)
	}
	if inline := content.Inline; inline != nil {
		sources++
		path := path.Child("inline")
		faults = append(faults, oneOf(path.Child("encoding"), inline.Encoding,
			extensions.EncodingPlain, extensions.EncodingBase64)...)
		faults = append(faults, required(path, [2]string{"data", inline.Data})...)
	}
	if ref := content.ImageRef; ref != nil {
		sources++
		faults = append(faults, required(path.Child("imageRef"),
			[2]string{"image", ref.Image}, [2]string{"filePathInImage", ref.FilePathInImage})...)
	}
	switch {
	case sources == 0:
		faults = append(faults, field.Required(path, "one of secretRef, inline and imageRef is required"))
	case sources > 1:
		faults = append(faults, field.Forbidden(path, "only one of secretRef, inline and imageRef can be set"))
	}
	return faults
}

func criConfig(path *field.Path, spec *extensions.OperatingSystemConfigSpec) (faults field.ErrorList) {
	if driver := spec.CRIConfig.CgroupDriver; driver != nil {
		faults = append(faults, oneOf(path.Child("cgroupDriver"), *driver, "cgroupfs", "systemd")...)
	}
	containerd, path := spec.CRIConfig.Containerd, path.Child("containerd")
	if containerd == nil {
		return faults
	}
	if spec.Purpose == extensions.PurposeProvision {
		return append(faults, field.Forbidden(path, "is only for the purpose reconcile"))
	}
	faults = append(faults, required(path, [2]string{"sandboxImage", containerd.SandboxImage})...)
	upstreams := map[string]bool{}
	for i := range containerd.Registries {
		registry, path := &containerd.Registries[i], path.Child("registries").Index(i)
		faults = append(faults, registryFaults(path, registry)...)
		if upstreams[registry.Upstream] {
			faults = append(faults, field.Duplicate(path.Child("upstream"), untrusted.Name(registry.Upstream)))
		}
		if upstreams[registry.Upstream] = true; len(faults) > maxFaults {
			return faults
		}
	}
	for i := range containerd.Plugins {
		faults = append(faults, pluginFaults(path.Child("plugins").Index(i), &containerd.Plugins[i])...)
		if len(faults) > maxFaults {
			return faults
		}
	}
	return faults
}

func registryFaults(path *field.Path, registry *extensions.RegistryConfig) field.ErrorList {
	faults := hostAndPort(path.Child("upstream"), registry.Upstream)
	if registry.Server != nil {
		faults = append(faults, webURL(path.Child("server"), *registry.Server)...)
	}
	for i := range registry.Hosts {
		host, path := &registry.Hosts[i], path.Child("hosts").Index(i)
		faults = append(faults, webURL(path.Child("url"), host.URL)...)
		for i, capability := range host.Capabilities {
			faults = append(faults,
				oneOf(path.Child("capabilities").Index(i), capability, "pull", "resolve", "push")...)
		}
		if len(faults) > maxFaults {
			break
		}
	}
	return faults
}

// hostAndPort has a fault if a text is no name of a registry: a domain with a port or without.
func hostAndPort(path *field.Path, text string) field.ErrorList {
	if text == "" {
		return field.ErrorList{field.Required(path, "field is required")}
	}
	if text == "_default" {
		return nil
	}
	host, port, hasPort := strings.Cut(text, ":")
	faults := subdomain(path, host)
	if number, err := strconv.Atoi(port); hasPort && (err != nil || len(validation.IsValidPortNum(number)) > 0) {
		faults = append(faults, field.Invalid(path, untrusted.Name(text), "the port must be between 1 and 65535"))
	}
	return faults
}

// webURL has a fault if a text is no URL of http or https with a host.
func webURL(path *field.Path, text string) field.ErrorList {
	parsed, err := url.Parse(text)
	if err != nil || parsed.Host == "" || parsed.Scheme != "http" && parsed.Scheme != "https" {
		return field.ErrorList{field.Invalid(path, "(not shown)", "must be a URL of http or https with a host")}
	}
	return nil
}

func pluginFaults(path *field.Path, plugin *extensions.PluginConfig) (faults field.ErrorList) {
	op := "add"
	if plugin.Op != nil {
		op = *plugin.Op
		faults = append(faults, oneOf(path.Child("op"), op, "add", "remove")...)
	}
	if len(plugin.Path) == 0 || slices.Contains(plugin.Path, "") {
		faults = append(faults, field.Required(path.Child("path"), "field is required, without empty parts"))
	}
	if plugin.Values == nil {
		return faults
	}
	values := map[string]json.RawMessage{}
	switch {
	case op == "remove":
		faults = append(faults, field.Forbidden(path.Child("values"), "cannot be set with the operation remove"))
	case json.Unmarshal(plugin.Values.Raw, &values) != nil:
		faults = append(faults, field.Invalid(path.Child("values"), "(not shown)", "must be an object"))
	}
	return faults
}
