package form

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Form is how the objects of a kind are read and checked: by a Go type or by the schema of a CustomResourceDefinition.
type Form interface {
	// Decode reads JSON. What the kind does not know is dropped and returned as strict errors; what is missing and has a
	// default gets it. The error is that of a document that cannot be read at all.
	Decode(doc []byte) (o *unstructured.Unstructured, strict []error, err error)
	// Encode writes JSON, with the fields in the order of a real server.
	Encode(o *unstructured.Unstructured) ([]byte, error)
	// Settle does what Decode does with an object at hand, which it may change.
	Settle(o *unstructured.Unstructured) (settled *unstructured.Unstructured, strict []error, err error)
	// Empty is an object with nothing in it, as it looks when it is decoded but for defaults. It must not be changed.
	Empty() *unstructured.Unstructured
	// InitialStatus is the status of a new object; nil: none. It must not be changed.
	InitialStatus() any
	// Validate checks a settled object; old is nil for a new one.
	Validate(o, old *unstructured.Unstructured, subresource string) field.ErrorList
	// PatchReference is an object of the Go type of the kind, for strategic merge patches; nil: these are not possible.
	PatchReference() runtime.Object
	// Versions are those of the kind, as apiVersions.
	Versions() []string
}

// DecodeError is what is wrong with a document.
type DecodeError struct {
	// GVK is what the document says it is; nil: it does not say.
	GVK *schema.GroupVersionKind
	Err error
}

func (e *DecodeError) Error() string { return e.Err.Error() }

// VersionError is a document in another version than that of the URL.
type VersionError struct{ Actual, Expected schema.GroupVersion }

func (e *VersionError) Error() string {
	return fmt.Sprintf("the API version in the data (%s) does not match the expected API version (%s)", e.Actual, e.Expected)
}
