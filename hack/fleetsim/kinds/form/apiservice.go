package form

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// APIServiceGV is the group version of an APIService.
var APIServiceGV = schema.GroupVersion{Group: "apiregistration.k8s.io", Version: "v1"}

// APIService is the part of apiregistration.k8s.io/v1 a simulated server needs. Its Go type belongs to a module that this
// one cannot do with.
type APIService struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              APIServiceSpec   `json:"spec,omitempty"`
	Status            APIServiceStatus `json:"status,omitempty"`
}

// APIServiceSpec says who serves which group version.
type APIServiceSpec struct {
	Service               *APIServiceReference `json:"service,omitempty"`
	Group                 string               `json:"group,omitempty"`
	Version               string               `json:"version,omitempty"`
	InsecureSkipTLSVerify bool                 `json:"insecureSkipTLSVerify,omitempty"`
	CABundle              []byte               `json:"caBundle,omitempty"`
	GroupPriorityMinimum  int32                `json:"groupPriorityMinimum"`
	VersionPriority       int32                `json:"versionPriority"`
}

// APIServiceReference names the Service of an APIService.
type APIServiceReference struct {
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	Port      *int32 `json:"port,omitempty"`
}

// APIServiceStatus reports whether the group version is served.
type APIServiceStatus struct {
	Conditions []APIServiceCondition `json:"conditions,omitempty"`
}

// APIServiceCondition is one condition; the one that matters is "Available".
type APIServiceCondition struct {
	Type               string      `json:"type"`
	Status             string      `json:"status"`
	LastTransitionTime metav1.Time `json:"lastTransitionTime,omitempty"`
	Reason             string      `json:"reason,omitempty"`
	Message            string      `json:"message,omitempty"`
}

// SetDefaults is called by defaults.Set.
func (a *APIService) SetDefaults() {
	if a.Spec.Service != nil && a.Spec.Service.Port == nil {
		port := int32(443)
		a.Spec.Service.Port = &port
	}
}

// DeepCopyObject implements runtime.Object.
func (a *APIService) DeepCopyObject() runtime.Object {
	c := *a
	a.DeepCopyInto(&c.ObjectMeta)
	if a.Spec.Service != nil {
		service := *a.Spec.Service
		c.Spec.Service = &service
	}
	c.Spec.CABundle = append([]byte(nil), a.Spec.CABundle...)
	c.Status.Conditions = append([]APIServiceCondition(nil), a.Status.Conditions...)
	return &c
}
