package admission

import (
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	hubv1alpha1 "github.com/trellis-hub/trellis/apis/hub/v1alpha1"
	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
)

const (
	// roleLabel is on the namespaces that Gardener manages.
	roleLabel = "gardener.cloud/role"
	// staticPodLabel, "true", is on the mirrors of static pods, which cannot be changed.
	staticPodLabel = "static-pod"
)

// Requirement is one of a selector.
type Requirement = metav1.LabelSelectorRequirement

// Selector selects what meets all requirements.
func Selector(requirements ...[]Requirement) metav1.LabelSelector {
	return metav1.LabelSelector{MatchExpressions: slices.Concat(requirements...)}
}

// Is has labels with one of some values.
func Is(key string, values ...string) []Requirement {
	return []Requirement{{Key: key, Operator: metav1.LabelSelectorOpIn, Values: values}}
}

// IsNot has no label, or one with another value.
func IsNot(key string, values ...string) []Requirement {
	return []Requirement{{Key: key, Operator: metav1.LabelSelectorOpNotIn, Values: values}}
}

// Without has no label, of whatever value. It is what labels are for by which objects opt out.
func Without(key string) []Requirement {
	return []Requirement{{Key: key, Operator: metav1.LabelSelectorOpDoesNotExist}}
}

// IsRuntime reports whether webhooks are for a cluster that control planes run in.
func IsRuntime(settings *hubv1alpha1.TargetWebhooks) bool {
	return settings.Registration != nil && settings.Registration.Scope != nil &&
		*settings.Registration.Scope == hubv1alpha1.WebhookScopeRuntime
}

// Namespaces selects those that most webhooks are for.
func Namespaces(settings *hubv1alpha1.TargetWebhooks) []Requirement {
	system := []string{metav1.NamespaceSystem, "kubernetes-dashboard"}
	if !IsRuntime(settings) {
		return Is(corev1.LabelMetadataName, system...)
	}
	return append([]Requirement{{Key: roleLabel, Operator: metav1.LabelSelectorOpExists}},
		IsNot(corev1.LabelMetadataName, system...)...)
}

// Managed selects the objects that are managed, in a cluster that has others of users beside them.
func Managed(settings *hubv1alpha1.TargetWebhooks) []Requirement {
	if IsRuntime(settings) {
		return nil
	}
	return Is(resourcesv1alpha1.ManagedByLabel, resourcesv1alpha1.ManagedByDefault)
}

// NotStatic leaves out static pods.
func NotStatic() []Requirement { return IsNot(staticPodLabel, "true") }

// NotServing leaves out pods of the hub and of resource managers, which have to start while no webhook answers.
func NotServing() []Requirement {
	return slices.Concat(IsNot("app", "gardener-resource-manager", "virtual-garden-gardener-resource-manager"),
		IsNot("app.kubernetes.io/name", "trellis"))
}

// Excluding adds to a selector that the object must not be excluded from mutating webhooks.
func Excluding(selector metav1.LabelSelector) metav1.LabelSelector {
	selector.MatchExpressions = append(slices.Clip(selector.MatchExpressions), metav1.LabelSelectorRequirement{
		Key: hubv1alpha1.WebhooksExcludeLabel, Operator: metav1.LabelSelectorOpDoesNotExist,
	})
	return selector
}

// Scoped sets the scope of rules as API servers do, so that what is read can be compared.
func Scoped(rules []admissionregistrationv1.RuleWithOperations) []admissionregistrationv1.RuleWithOperations {
	rules = slices.Clone(rules)
	for i := range rules {
		if rules[i].Scope == nil {
			rules[i].Scope = ptr.To(admissionregistrationv1.AllScopes)
		}
	}
	return rules
}

// Rule is that of one kind of objects, for some operations.
func Rule(group, version, resource string, operations ...admissionregistrationv1.OperationType,
) admissionregistrationv1.RuleWithOperations {
	return admissionregistrationv1.RuleWithOperations{
		Operations: operations,
		Rule: admissionregistrationv1.Rule{
			APIGroups: []string{group}, APIVersions: []string{version}, Resources: []string{resource},
		},
	}
}
