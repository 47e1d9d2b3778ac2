package reviews

import (
	"context"
	"sync"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/trellis-hub/trellis/webhooks/admission"
)

var _ admission.State = &State{}

// State is that of a target. The zero value has no objects. It may be read at the same time by any number of handlers;
// Calls is for when they have ended.
type State struct {
	Accounts    []corev1.ServiceAccount
	ConfigMaps  []corev1.ConfigMap
	Services    []corev1.Service
	Spaces      []metav1.PartialObjectMetadata
	NodeList    []corev1.Node
	Autoscalers []autoscalingv2.HorizontalPodAutoscaler
	// Stale has the nodes be the last known ones.
	Stale bool
	// Err is returned by every call, if it is set, and ErrOf by those that read a resource.
	Err   error
	ErrOf map[string]error
	// Calls counts what is read, by resource.
	Calls map[string]int

	mu sync.Mutex // of Calls
}

func (s *State) read(resource string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.Calls == nil {
		s.Calls = map[string]int{}
	}
	s.Calls[resource]++
	if s.Err != nil {
		return s.Err
	}
	return s.ErrOf[resource]
}

func find[T any](s *State, resource string, list []T, name types.NamespacedName,
	of func(*T) metav1.ObjectMeta,
) (*T, error) {
	if err := s.read(resource); err != nil {
		return nil, err
	}
	for i := range list {
		if meta := of(&list[i]); meta.Namespace == name.Namespace && meta.Name == name.Name {
			return &list[i], nil
		}
	}
	return nil, apierrors.NewNotFound(corev1.Resource(resource), name.Name)
}

// ServiceAccount is one of Accounts.
func (s *State) ServiceAccount(_ context.Context, name types.NamespacedName) (*corev1.ServiceAccount, error) {
	return find(s, "serviceaccounts", s.Accounts, name, func(o *corev1.ServiceAccount) metav1.ObjectMeta {
		return o.ObjectMeta
	})
}

// ConfigMap is one of ConfigMaps.
func (s *State) ConfigMap(_ context.Context, name types.NamespacedName) (*corev1.ConfigMap, error) {
	return find(s, "configmaps", s.ConfigMaps, name, func(o *corev1.ConfigMap) metav1.ObjectMeta { return o.ObjectMeta })
}

// Service is one of Services.
func (s *State) Service(_ context.Context, name types.NamespacedName) (*corev1.Service, error) {
	return find(s, "services", s.Services, name, func(o *corev1.Service) metav1.ObjectMeta { return o.ObjectMeta })
}

// Namespace is one of Spaces.
func (s *State) Namespace(_ context.Context, name string) (*metav1.PartialObjectMetadata, error) {
	return find(s, "namespaces", s.Spaces, types.NamespacedName{Name: name},
		func(o *metav1.PartialObjectMetadata) metav1.ObjectMeta { return o.ObjectMeta })
}

// Nodes are NodeList.
func (s *State) Nodes(context.Context) (nodes []corev1.Node, stale bool, err error) {
	if err := s.read("nodes"); err != nil {
		return nil, false, err
	}
	return s.NodeList, s.Stale, nil
}

// HorizontalPodAutoscalers are those of Autoscalers in a namespace.
func (s *State) HorizontalPodAutoscalers(_ context.Context, namespace string,
) (found []autoscalingv2.HorizontalPodAutoscaler, err error) {
	if err := s.read("horizontalpodautoscalers"); err != nil {
		return nil, err
	}
	for _, a := range s.Autoscalers {
		if a.Namespace == namespace {
			found = append(found, a)
		}
	}
	return found, nil
}
