package extensions

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Purposes of an OperatingSystemConfig.
const (
	// PurposeProvision is that of configurations which bootstrap a machine.
	PurposeProvision = "provision"
	// PurposeReconcile is that of configurations which the node agent keeps on a node.
	PurposeReconcile = "reconcile"
)

// Encodings of inlined files.
const (
	// EncodingPlain is text as it is.
	EncodingPlain = ""
	// EncodingBase64 is standard base64.
	EncodingBase64 = "b64"
)

// OperatingSystemConfig says what is on the nodes of a worker pool: files, systemd units, the container runtime.
type OperatingSystemConfig struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   OperatingSystemConfigSpec   `json:"spec"`
	Status OperatingSystemConfigStatus `json:"status"`
}

// OperatingSystemConfigSpec is what is wanted.
type OperatingSystemConfigSpec struct {
	Type           string                `json:"type"`
	ProviderConfig *runtime.RawExtension `json:"providerConfig,omitempty"`
	// CRIConfig is nil if the container runtime is left as the image of the machine has it.
	CRIConfig *CRIConfig `json:"criConfig,omitempty"`
	Purpose   string     `json:"purpose"`
	Units     []Unit     `json:"units,omitempty"`
	Files     []File     `json:"files,omitempty"`
}

// OperatingSystemConfigStatus is what the extension of the operating system adds.
type OperatingSystemConfigStatus struct {
	ExtensionUnits []Unit `json:"extensionUnits,omitempty"`
	ExtensionFiles []File `json:"extensionFiles,omitempty"`
}

// Unit is a systemd unit, or additions to one that exists.
type Unit struct {
	Name string `json:"name"`
	// Command is start, restart or stop; nil is left to the node agent.
	Command *string `json:"command,omitempty"`
	Enable  *bool   `json:"enable,omitempty"`
	// Content is that of the unit file; nil if the unit is there already.
	Content *string  `json:"content,omitempty"`
	DropIns []DropIn `json:"dropIns,omitempty"`
	// FilePaths are those of files whose change restarts the unit.
	FilePaths []string `json:"filePaths,omitempty"`
}

// DropIn is a file that adds to a unit.
type DropIn struct {
	Name    string `json:"name"`
	Content string `json:"content"`
}

// File is a file on a node.
type File struct {
	Path string `json:"path"`
	// Permissions is nil for 0644.
	Permissions *int32      `json:"permissions,omitempty"`
	Content     FileContent `json:"content"`
	// HostName is that of the only node that gets the file; nil for all.
	HostName *string `json:"hostName,omitempty"`
}

// FileContent is where the content of a file comes from: one of the references, or inline.
type FileContent struct {
	SecretRef         *FileContentSecretRef `json:"secretRef,omitempty"`
	Inline            *FileContentInline    `json:"inline,omitempty"`
	TransmitUnencoded *bool                 `json:"transmitUnencoded,omitempty"`
	ImageRef          *FileContentImageRef  `json:"imageRef,omitempty"`
}

// FileContentSecretRef is a key of a Secret in the namespace of the object.
type FileContentSecretRef struct {
	Name    string `json:"name"`
	DataKey string `json:"dataKey"`
}

// FileContentInline is the content itself.
type FileContentInline struct {
	// Encoding is EncodingPlain or EncodingBase64.
	Encoding string `json:"encoding"`
	Data     string `json:"data"`
}

// FileContentImageRef is a file of a container image.
type FileContentImageRef struct {
	Image           string `json:"image"`
	FilePathInImage string `json:"filePathInImage"`
}

// CRIConfig is the configuration of the container runtime.
type CRIConfig struct {
	Name string `json:"name"`
	// CgroupDriver is cgroupfs or systemd; nil for the default of the runtime.
	CgroupDriver *string           `json:"cgroupDriver,omitempty"`
	Containerd   *ContainerdConfig `json:"containerd,omitempty"`
}

// ContainerdConfig is the configuration of containerd.
type ContainerdConfig struct {
	Registries   []RegistryConfig `json:"registries,omitempty"`
	SandboxImage string           `json:"sandboxImage"`
	Plugins      []PluginConfig   `json:"plugins,omitempty"`
}

// RegistryConfig says where images of an upstream are pulled from.
type RegistryConfig struct {
	// Upstream is a host with an optional port, or _default for all that have no entry.
	Upstream string  `json:"upstream"`
	Server   *string `json:"server,omitempty"`
	// Hosts are tried in their order, before the server.
	Hosts          []RegistryHost `json:"hosts,omitempty"`
	ReadinessProbe *bool          `json:"readinessProbe,omitempty"`
}

// RegistryHost is a mirror.
type RegistryHost struct {
	URL string `json:"url"`
	// Capabilities are pull, resolve and push.
	Capabilities []string `json:"capabilities,omitempty"`
	CACerts      []string `json:"caCerts,omitempty"`
}

// PluginConfig changes the configuration of one plugin of containerd.
type PluginConfig struct {
	// Op is add or remove; nil is add.
	Op     *string               `json:"op,omitempty"`
	Path   []string              `json:"path"`
	Values *runtime.RawExtension `json:"values,omitempty"`
}
