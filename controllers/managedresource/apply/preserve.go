package apply

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
)

// preservedPaths are the fields of a manifest whose live value wins over the manifest's once the object exists
// (spec/managedresource.md 2.10).
func preservedPaths(manifest *unstructured.Unstructured) [][]string {
	gk := manifest.GroupVersionKind().GroupKind()
	if gk.Group != "apps" || gk.Kind != "Deployment" && gk.Kind != "StatefulSet" {
		return nil
	}
	_, set, _ := unstructured.NestedFieldNoCopy(manifest.Object, "spec", "replicas")
	if !set || manifest.GetAnnotations()[resourcesv1alpha1.PreserveReplicasAnnotation] == "true" {
		return [][]string{{"spec", "replicas"}}
	}
	return nil
}

// needsLive tells whether an intent depends on the live object.
func needsLive(manifest *unstructured.Unstructured) bool {
	return len(manifest.GetFinalizers()) > 0 || len(preservedPaths(manifest)) > 0
}

// preserve adapts an intent to the live object. A preserved field that we own is sent with its live value, because leaving
// it out would delete it; one that somebody else owns is not sent at all, so that he goes on owning it.
func preserve(intent, manifest, live *unstructured.Unstructured, owned *fieldpath.Set) {
	for _, path := range preservedPaths(manifest) {
		value, found, _ := unstructured.NestedFieldCopy(live.Object, path...)
		if found && owned != nil && owned.Has(fieldPath(path)) {
			_ = unstructured.SetNestedField(intent.Object, value, path...)
			continue
		}
		if found {
			unstructured.RemoveNestedField(intent.Object, path...)
		}
	}
	// Finalizers of the manifest count at creation only: one that somebody took off since must not come back, and one
	// that is still there stays ours.
	if wanted := manifest.GetFinalizers(); len(wanted) > 0 {
		present := live.GetFinalizers()
		intent.SetFinalizers(slices.DeleteFunc(slices.Clone(wanted), func(f string) bool { return !slices.Contains(present, f) }))
	}
}

func fieldPath(names []string) fieldpath.Path {
	path := make(fieldpath.Path, 0, len(names))
	for i := range names {
		path = append(path, fieldpath.PathElement{FieldName: &names[i]})
	}
	return path
}
