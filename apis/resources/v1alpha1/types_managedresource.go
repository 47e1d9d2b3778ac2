package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ManagedResource names the Secrets whose content is to exist in a target cluster, and reports whether it does.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Namespaced,path=managedresources,singular=managedresource,shortName=mr
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name=Class,type=string,JSONPath=`.spec.class`,description="The class identifies which resource manager is responsible for this ManagedResource."
// +kubebuilder:printcolumn:name=Ready,type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Whether everything is applied, healthy and rolled out."
// +kubebuilder:printcolumn:name=Reason,type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,description="Why it is ready or not."
// +kubebuilder:printcolumn:name=Applied,type=string,JSONPath=`.status.conditions[?(@.type=="ResourcesApplied")].status`,description="Whether all resources have been applied."
// +kubebuilder:printcolumn:name=Healthy,type=string,JSONPath=`.status.conditions[?(@.type=="ResourcesHealthy")].status`,description="Whether all resources are healthy."
// +kubebuilder:printcolumn:name=Progressing,type=string,JSONPath=`.status.conditions[?(@.type=="ResourcesProgressing")].status`,description="Whether some resources are still being rolled out."
// +kubebuilder:printcolumn:name=Contested,type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Contested")].status`,description="Whether another client changes the same objects again and again."
// +kubebuilder:printcolumn:name=Since,type=date,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].lastTransitionTime`,description="For how long it is or is not ready."
// +kubebuilder:printcolumn:name=Message,type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,description="What to know about the state."
// +kubebuilder:printcolumn:name=Age,type=date,JSONPath=`.metadata.creationTimestamp`
type ManagedResource struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec says what is to exist in the target.
	Spec ManagedResourceSpec `json:"spec,omitempty"`
	// Status says what exists there.
	Status ManagedResourceStatus `json:"status,omitempty"`
}

// ManagedResourceList is a list of ManagedResources.
//
// +kubebuilder:object:root=true
type ManagedResourceList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	// Items are the ManagedResources.
	Items []ManagedResource `json:"items"`
}

// ManagedResourceSpec says what is to exist in the target and how it is treated.
type ManagedResourceSpec struct {
	// Class selects who is responsible for the ManagedResource, and with that the target. Absent and empty both mean the
	// default class.
	// +optional
	Class *string `json:"class,omitempty"`
	// SecretRefs are the Secrets of the same namespace that hold the manifests, read in this order. An empty list is
	// valid: everything that was managed before is deleted.
	SecretRefs []corev1.LocalObjectReference `json:"secretRefs"`
	// InjectLabels are set on every object and in the pod templates and volume claim templates inside. They win over
	// labels of the manifests.
	// +optional
	InjectLabels map[string]string `json:"injectLabels,omitempty"`
	// ForceOverwriteLabels removes labels from live objects that the manifests do not have. Default: false.
	// +optional
	ForceOverwriteLabels *bool `json:"forceOverwriteLabels,omitempty"`
	// ForceOverwriteAnnotations removes annotations from live objects that the manifests do not have. Default: false.
	// +optional
	ForceOverwriteAnnotations *bool `json:"forceOverwriteAnnotations,omitempty"`
	// KeepObjects leaves all objects in the target when the ManagedResource is deleted or changes its class. It does not
	// protect an object that is removed from the Secrets meanwhile. Default: false.
	// +optional
	KeepObjects *bool `json:"keepObjects,omitempty"`
	// Equivalences are additional sets of group kinds to be taken for the same kind, so that an object which moves from
	// one to another of its set is not deleted.
	// +optional
	Equivalences [][]metav1.GroupKind `json:"equivalences,omitempty"`
	// DeletePersistentVolumeClaims deletes the claims of a StatefulSet before the StatefulSet is deleted. Default: false.
	// +optional
	DeletePersistentVolumeClaims *bool `json:"deletePersistentVolumeClaims,omitempty"`
}

// ManagedResourceStatus says what became of the spec.
type ManagedResourceStatus struct {
	// Conditions are the latest observations, one for each type.
	// +optional
	Conditions []Condition `json:"conditions,omitempty"`
	// ObservedGeneration is the generation that was applied completely; zero if none was yet.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Resources is the inventory: the objects in the target that belong to this ManagedResource.
	// +optional
	Resources []ObjectReference `json:"resources,omitempty"`
	// SecretsDataChecksum is the lower-case hex SHA-256 of the data of the Secrets. It only shows that data changed; no
	// work is skipped because of it.
	// +optional
	SecretsDataChecksum *string `json:"secretsDataChecksum,omitempty"`
}

// ObjectReference is an entry of the inventory: an object and the metadata that it was applied with.
//
// The uid is that of the object in the target, set by Trellis and left empty by Gardener's resource manager.
type ObjectReference struct {
	corev1.ObjectReference `json:",inline"`

	// Labels are the labels the object was last applied with, the base of the next three-way merge.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
	// Annotations are the annotations the object was last applied with, the base of the next three-way merge.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
}
