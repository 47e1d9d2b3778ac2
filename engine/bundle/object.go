package bundle

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/engine/manifest"
)

// Object is one decoded object.
//
// Its content may be shared with bundles of other ManagedResources and must not be changed: take a DeepCopy first.
type Object struct {
	*unstructured.Unstructured
	// Text is the object in JSON.
	Text *manifest.Text
	// Position says which document it was.
	Position
	// ModeIgnore is true if the manifest carries the annotation mode=Ignore (exactly that spelling, MR-14). Such an
	// object is neither applied nor part of the inventory; it is listed so that it can be released.
	ModeIgnore bool
}

// item is an Object without the Secret's name.
type item struct {
	place
	document
}

// String returns the position of the object. It never prints the object itself, which may be a Secret.
func (o Object) String() string {
	return o.Position.String()
}

// Invalid returns why the object cannot be applied whatever the target says, or nil. The text names the document.
//
// Labels and annotations are checked as well: Kubernetes' accessors return none of them if a single value is not a
// string, and code that relies on them would silently drop the others.
func (o Object) Invalid() error {
	if problem := invalid(o.Object); problem != "" {
		return fmt.Errorf("%s %s", o.Position, problem)
	}
	return nil
}

// checkName returns an error for an object that has a type and no name, which cannot be applied. One without a type
// decodes, because a Gardener resource manager reports it as not applied and not as undecodable (MR-4).
func checkName(object map[string]any) error {
	kind := text(object, "kind")
	if kind == "" || text(object, "apiVersion") == "" {
		return nil
	}
	metadata := object["metadata"]
	if _, isMap := metadata.(map[string]any); !isMap && metadata != nil {
		return nil // Object.Invalid reports it
	}
	if name, _ := field(metadata, "name"); name != nil && name != "" {
		return nil
	}
	switch {
	case text(metadata, "generateName") != "":
		return errGenerateName
	case strings.HasSuffix(kind, "List"):
		return errors.New("the list has no items, and the object no metadata.name")
	default:
		return errors.New("the object has no metadata.name")
	}
}

// invalid returns what is wrong with an object as the end of a sentence, or "".
func invalid(object map[string]any) string {
	for _, field := range []string{"apiVersion", "kind"} {
		if problem := missing(object, field, field); problem != "" {
			return problem
		}
	}
	apiVersion, _ := object["apiVersion"].(string)
	if _, err := schema.ParseGroupVersion(apiVersion); err != nil {
		return "has an apiVersion that is not of the form version or group/version"
	}

	metadata, isMap := object["metadata"].(map[string]any)
	if !isMap && object["metadata"] != nil {
		return "has a metadata that is not a map"
	}
	if problem := missing(metadata, "name", "metadata.name"); problem != "" {
		return problem
	}
	if _, isString := metadata["namespace"].(string); !isString && metadata["namespace"] != nil {
		return "has a metadata.namespace that is not a string"
	}
	for _, field := range []string{"labels", "annotations"} {
		entries, isMap := metadata[field].(map[string]any)
		if !isMap && metadata[field] != nil {
			return fmt.Sprintf("has metadata.%s that are not a map", field)
		}
		for _, key := range slices.Sorted(maps.Keys(entries)) {
			if _, isString := entries[key].(string); !isString {
				return fmt.Sprintf("has a value in metadata.%s that is not a string (quote it): %s", field, key)
			}
		}
	}
	return ""
}

// missing returns what is wrong with a field that must be a string and not empty.
func missing(object map[string]any, field, name string) string {
	switch value := object[field].(type) {
	case string:
		if value != "" {
			return ""
		}
	case nil:
	default:
		return fmt.Sprintf("has a %s that is not a string", name)
	}
	return "has no " + name
}

// modeIgnore reports whether the manifest has mode Ignore. It reads the one annotation only, so that another one that
// is not a string cannot hide it.
func modeIgnore(object map[string]any) bool {
	metadata, _ := object["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	return annotations[resourcesv1alpha1.ModeAnnotation] == resourcesv1alpha1.ModeIgnore
}
