package health

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
)

// Result says whether an object is healthy. The zero value is "not checked, not healthy", which Check never returns.
type Result struct {
	// Checked is false if only the object's existence counts: its kind has no criteria, it does not follow the
	// convention for conditions, or it has the annotation skip-health-check.
	Checked bool
	// Healthy is true for objects that meet the criteria of their kind and for those that are not checked.
	Healthy bool
	// Problem says why the object is not healthy.
	Problem
}

// Check reports whether a live object is healthy.
func Check(object *unstructured.Unstructured) Result {
	kind := kindOf(object.GroupVersionKind().GroupKind())
	if !kind.checks(object.Object) {
		return Result{Healthy: true}
	}
	problem := kind.unhealthy(object.Object)
	return Result{Checked: true, Healthy: problem == Problem{}, Problem: problem}
}

// checks reports whether there is anything to check in an object of the kind.
func (k *kind) checks(object content) bool {
	return k != nil && !skipped(object) && (k.applies == nil || k.applies(object))
}

// skipped reports whether a live object is annotated to be left out of the checks. Only "true" counts (H-25).
func skipped(object content) bool {
	annotations, _ := object.field("metadata", "annotations").(map[string]any)
	return annotations[resourcesv1alpha1.SkipHealthCheckAnnotation] == "true"
}
