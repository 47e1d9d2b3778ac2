package v1alpha1

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// SecretNamespaces returns the namespaces whose Secrets the classes need, sorted. An empty result means all: a class
// with the target type Namespace serves every namespace with a registration. Other classes need the namespaces that
// they select, if they list them by the label kubernetes.io/metadata.name, and that of their registration.
//
// The chart computes the same in its templates, to grant the hub no more rights than needed.
func SecretNamespaces(classes []Class) []string {
	var needed []string
	for _, class := range classes {
		listed := listedNamespaces(class.NamespaceSelector)
		if class.Target.Type == TargetNamespace || len(listed) == 0 {
			return nil
		}
		needed = append(needed, listed...)
		if class.Target.Type == TargetRegistration {
			needed = append(needed, class.Target.Namespace)
		}
	}
	slices.Sort(needed)
	return slices.Compact(needed)
}

// listedNamespaces returns the names that a selector lists, none if it selects in another way. Its other requirements
// can only exclude some of them.
func listedNamespaces(selector *metav1.LabelSelector) []string {
	if selector == nil {
		return nil
	}
	if name, ok := selector.MatchLabels[corev1.LabelMetadataName]; ok {
		return []string{name}
	}
	for _, r := range selector.MatchExpressions {
		if r.Key == corev1.LabelMetadataName && r.Operator == metav1.LabelSelectorOpIn {
			return r.Values
		}
	}
	return nil
}
