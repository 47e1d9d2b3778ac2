package health

import (
	"errors"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
)

// ProgressResult is the answer to whether an object is rolled out. The zero value is that of an object without roll-outs.
type ProgressResult struct {
	// Checked is false if the object has no roll-outs, or is annotated with skip-health-check.
	Checked bool
	// Progressing is true if the object is still rolling out.
	Progressing bool
	// Message says what it is waiting for. It names the cause, not the object.
	Message string

	// Selector is set if the object itself looks rolled out, but its pods have the last word: then PodsRolledOut decides.
	Selector labels.Selector
	// Replicas is the number of pods that Selector should match.
	Replicas int64
}

// Progress tells whether a live object is still rolling out, by the criteria of spec 3.3. For a Deployment, also ask
// PodsRolledOut.
func Progress(object *unstructured.Unstructured) ProgressResult {
	gvk := object.GroupVersionKind()
	kind := kinds[gvk]
	if kind.progressing == nil || skipped(object.Object) {
		return ProgressResult{}
	}
	if message := kind.progressing(object.Object); message != "" {
		return ProgressResult{Checked: true, Progressing: true, Message: message}
	}
	if gvk != appsv1.SchemeGroupVersion.WithKind("Deployment") {
		return ProgressResult{Checked: true}
	}

	deployment := content(object.Object)
	selector, err := deployment.podSelector()
	if err != nil {
		return ProgressResult{Checked: true, Progressing: true, Message: err.Error()}
	}
	wanted, _ := deployment.replicas()
	return ProgressResult{Checked: true, Selector: selector, Replicas: wanted}
}

// podSelector returns what selects the pods of a Deployment, labels and expressions alike. A selector that is empty
// selects nothing: to Kubernetes' own function it means all pods of the namespace (BUG-5 of the specification).
func (c content) podSelector() (labels.Selector, error) {
	given, _ := c.field("spec", "selector").(map[string]any)
	var selector metav1.LabelSelector
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(given, &selector); err != nil {
		return nil, errors.New("the selector cannot be read")
	}
	if len(selector.MatchLabels)+len(selector.MatchExpressions) == 0 {
		return labels.Nothing(), nil
	}
	parsed, err := metav1.LabelSelectorAsSelector(&selector)
	if err != nil {
		return nil, errors.New("the selector is not valid")
	}
	return parsed, nil
}
