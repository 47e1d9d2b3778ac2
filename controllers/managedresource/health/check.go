package health

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
)

// Result is the answer to whether an object is healthy. The zero value says "not checked, not healthy", which Check never
// returns.
type Result struct {
	// Checked is false if there is nothing to check but the object's existence: its kind has no criteria, or it is
	// annotated with skip-health-check.
	Checked bool
	// Healthy is true for objects that meet the criteria of their kind and for those that are not checked.
	Healthy bool
	// Problem says why the object is not healthy.
	Problem
}

// Check tells whether a live object is healthy, by the criteria of spec 3.2.
func Check(object *unstructured.Unstructured) Result {
	kind, known := kinds[object.GroupVersionKind()]
	if !known || skipped(object.Object) {
		return Result{Healthy: true}
	}
	problem := kind.unhealthy(object.Object)
	return Result{Checked: true, Healthy: problem == Problem{}, Problem: problem}
}

// skipped reports whether a live object is annotated to be left out of the checks. Only "true" counts (spec 1.6).
func skipped(object content) bool {
	annotations, _ := object.field("metadata", "annotations").(map[string]any)
	return annotations[resourcesv1alpha1.SkipHealthCheckAnnotation] == "true"
}
