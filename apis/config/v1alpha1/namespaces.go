package v1alpha1

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// SecretNamespaces returns the namespaces whose Secrets the classes need, sorted. None means all: a class with the target type
// Namespace serves whichever namespace has a registration. Another class needs those that it selects, if it lists them by
// the label kubernetes.io/metadata.name, and that of its registration.
//
// The chart does the same sum in its templates, to give the hub no more rights than that.
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

// listedNamespaces returns the names that a selector lists, none if it selects in another way. What it demands besides makes
// them no more.
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
