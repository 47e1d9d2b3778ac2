package extensions

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
)

// BackupBucketSpec is what is wanted of a BackupBucket.
type BackupBucketSpec struct {
	Type      string                 `json:"type"`
	Region    string                 `json:"region"`
	SecretRef corev1.SecretReference `json:"secretRef"`
}

// BackupEntrySpec is what is wanted of a BackupEntry.
type BackupEntrySpec struct {
	Type       string                 `json:"type"`
	BucketName string                 `json:"bucketName"`
	Region     string                 `json:"region"`
	SecretRef  corev1.SecretReference `json:"secretRef"`
}

// BastionSpec is what is wanted of a Bastion.
type BastionSpec struct {
	Type string `json:"type"`
	// UserData is what the machine does first, in base64.
	UserData []byte                 `json:"userData"`
	Ingress  []runtime.RawExtension `json:"ingress"`
}

// ContainerRuntimeSpec is what is wanted of a ContainerRuntime.
type ContainerRuntimeSpec struct {
	Type       string `json:"type"`
	BinaryPath string `json:"binaryPath"`
	WorkerPool struct {
		Name string `json:"name"`
	} `json:"workerPool"`
}

// ControlPlaneSpec is what is wanted of a ControlPlane.
type ControlPlaneSpec struct {
	Type      string                 `json:"type"`
	Region    string                 `json:"region"`
	SecretRef corev1.SecretReference `json:"secretRef"`
}

// InfrastructureSpec is what is wanted of an Infrastructure.
type InfrastructureSpec ControlPlaneSpec

// ExtensionSpec is what is wanted of an Extension.
type ExtensionSpec struct {
	Type string `json:"type"`
}

// DNSRecordSpec is what is wanted of a DNSRecord.
type DNSRecordSpec struct {
	Type      string                 `json:"type"`
	SecretRef corev1.SecretReference `json:"secretRef"`
	// Region and Zone are nil if they follow from the name.
	Region *string `json:"region,omitempty"`
	Zone   *string `json:"zone,omitempty"`
	Name   string  `json:"name"`
	// RecordType is A, AAAA, CNAME or TXT.
	RecordType string   `json:"recordType"`
	Values     []string `json:"values"`
	// TTL is in seconds; nil for the default of the provider.
	TTL *int64 `json:"ttl,omitempty"`
}

// NetworkSpec is what is wanted of a Network.
type NetworkSpec struct {
	Type        string `json:"type"`
	PodCIDR     string `json:"podCIDR"`
	ServiceCIDR string `json:"serviceCIDR"`
	// IPFamilies are IPv4, IPv6 or both; none for IPv4.
	IPFamilies []string `json:"ipFamilies,omitempty"`
}

// SelfHostedShootExposureSpec is what is wanted of a SelfHostedShootExposure.
type SelfHostedShootExposureSpec struct {
	Type           string                  `json:"type"`
	CredentialsRef *corev1.ObjectReference `json:"credentialsRef,omitempty"`
	Port           int32                   `json:"port"`
	Endpoints      []ControlPlaneEndpoint  `json:"endpoints"`
}

// ControlPlaneEndpoint is a node with an API server.
type ControlPlaneEndpoint struct {
	NodeName  string               `json:"nodeName"`
	Addresses []corev1.NodeAddress `json:"addresses"`
}

// WorkerSpec is what is wanted of a Worker.
type WorkerSpec struct {
	Type      string                 `json:"type"`
	Region    string                 `json:"region"`
	SecretRef corev1.SecretReference `json:"secretRef"`
	Pools     []MachinePool          `json:"pools"`
}

// MachinePool is a group of machines that are alike.
type MachinePool struct {
	Name         string `json:"name"`
	MachineType  string `json:"machineType"`
	MachineImage struct {
		Name    string `json:"name"`
		Version string `json:"version"`
	} `json:"machineImage"`
	// Architecture is amd64 or arm64; nil for amd64.
	Architecture *string       `json:"architecture,omitempty"`
	NodeTemplate *NodeTemplate `json:"nodeTemplate,omitempty"`
}

// NodeTemplate is what a node of a pool will have.
type NodeTemplate struct {
	Capacity map[corev1.ResourceName]resource.Quantity `json:"capacity,omitempty"`
}
