package extensions

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-hub/trellis/untrusted"
)

// Cluster has what Gardener knows of the shoot of a namespace. It is named like the namespace.
type Cluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec ClusterSpec `json:"spec"`
}

// ClusterSpec has objects of the garden, as JSON. Providers decode what they need of them into their own types.
type ClusterSpec struct {
	CloudProfile runtime.RawExtension `json:"cloudProfile"`
	Seed         runtime.RawExtension `json:"seed"`
	Shoot        runtime.RawExtension `json:"shoot"`
}

// Shoot has of a Shoot what versions and zones depend on.
type Shoot struct {
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec ShootSpec `json:"spec"`
}

// ShootSpec is what is wanted of a shoot.
type ShootSpec struct {
	Kubernetes Kubernetes `json:"kubernetes"`
	Provider   Provider   `json:"provider"`
	Region     string     `json:"region"`
}

// Kubernetes has a version of it.
type Kubernetes struct {
	// Version is like 1.36.3. In a worker pool, an empty one is that of the control plane.
	Version string `json:"version"`
}

// Provider is the infrastructure of a shoot.
type Provider struct {
	Type    string       `json:"type"`
	Workers []WorkerPool `json:"workers,omitempty"`
}

// WorkerPool is a group of nodes that are alike.
type WorkerPool struct {
	Name string `json:"name"`
	// Kubernetes is nil if the pool has the version of the control plane.
	Kubernetes *Kubernetes `json:"kubernetes,omitempty"`
	Zones      []string    `json:"zones,omitempty"`
}

// Shoot decodes the shoot.
func (c *Cluster) Shoot() (*Shoot, error) {
	shoot := &Shoot{}
	if err := Decode(c.Spec.Shoot.Raw, shoot); err != nil {
		return nil, fmt.Errorf("the shoot of cluster %s: %w", untrusted.Name(c.Name), err)
	}
	return shoot, nil
}

// KubeletVersion is the version of Kubernetes on the nodes of a worker pool: its own, else that of the control plane.
// The same holds for a pool that does not exist.
func (s *Shoot) KubeletVersion(pool string) (*version.Version, error) {
	text := s.Spec.Kubernetes.Version
	for _, p := range s.Spec.Provider.Workers {
		if p.Name == pool && p.Kubernetes != nil && p.Kubernetes.Version != "" {
			text = p.Kubernetes.Version
			break
		}
	}
	parsed, err := version.ParseGeneric(text)
	if err != nil {
		return nil, fmt.Errorf("the Kubernetes version of shoot %s: %w", untrusted.Name(s.Name), err)
	}
	return parsed, nil
}

// ReadCluster reads the Cluster of a namespace.
func ReadCluster(ctx context.Context, reader client.Reader, namespace string) (*Cluster, error) {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(GroupVersion.WithKind("Cluster"))
	if err := reader.Get(ctx, client.ObjectKey{Name: namespace}, object); err != nil {
		return nil, fmt.Errorf("read cluster %s: %w", untrusted.Name(namespace), err)
	}
	document, err := object.MarshalJSON()
	if err != nil {
		return nil, fmt.Errorf("encode cluster %s: %w", untrusted.Name(namespace), err)
	}
	cluster := &Cluster{}
	if err := Decode(document, cluster); err != nil {
		return nil, fmt.Errorf("cluster %s: %w", untrusted.Name(namespace), err)
	}
	return cluster, nil
}
