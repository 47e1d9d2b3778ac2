package form

import (
	stdjson "encoding/json"
	"fmt"
	"maps"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/trellis-hub/trellis/hack/fleetsim/kinds/defaults"
)

// Typed reads objects through the Go type of their kind, so that they look as a real server stores them.
type Typed struct {
	gvk        schema.GroupVersionKind
	namespaced bool
	reference  runtime.Object
	none       *unstructured.Unstructured
	status     any
}

// NewTyped returns the form of a kind that Scheme knows.
func NewTyped(gvk schema.GroupVersionKind, namespaced bool) *Typed {
	f := &Typed{gvk: gvk, namespaced: namespaced}
	f.reference = f.new()
	f.none = f.Unstructured(f.new())
	filled := f.new()
	defaults.Set(filled)
	f.status = f.Unstructured(filled).Object["status"]
	return f
}

func (f *Typed) new() runtime.Object {
	obj, err := Scheme.New(f.gvk)
	if err != nil {
		panic(err) // TestServesWhatKubeAPIServerServes would have failed
	}
	obj.GetObjectKind().SetGroupVersionKind(f.gvk)
	return obj
}

// Unstructured converts an object of the Go type.
func (f *Typed) Unstructured(obj runtime.Object) *unstructured.Unstructured {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		panic(fmt.Sprintf("a %s cannot be converted: %v", f.gvk.Kind, err))
	}
	return &unstructured.Unstructured{Object: content}
}

// Decode implements Form.
func (f *Typed) Decode(doc []byte) (*unstructured.Unstructured, []error, error) {
	obj := f.new()
	gvk := f.gvk
	decoded, actual, err := strictSerializer.Decode(doc, &gvk, obj)
	strictErr, isStrict := runtime.AsStrictDecodingError(err)
	if err != nil && !isStrict {
		return nil, nil, &DecodeError{GVK: actual, Err: err}
	}
	if *actual != f.gvk {
		return nil, nil, &DecodeError{GVK: actual, Err: fmt.Errorf("converting (%s) to (%s): unknown conversion", typeName(decoded), f.internalName())}
	}
	var strict []error
	if isStrict {
		strict = strictErr.Errors()
	}
	decoded.GetObjectKind().SetGroupVersionKind(f.gvk)
	return f.filled(decoded), strict, nil
}

// typeName is how a Go type prints: v1.Deployment.
func typeName(obj runtime.Object) string {
	return strings.TrimPrefix(reflect.TypeOf(obj).String(), "*")
}

// internalName is how the internal type of a real server prints: core.ConfigMap.
func (f *Typed) internalName() string {
	group, _, _ := strings.Cut(f.gvk.Group, ".")
	if group == "" {
		group = "core"
	}
	return group + "." + f.gvk.Kind
}

// filled gives an object its defaults and returns it as unstructured content.
func (f *Typed) filled(obj runtime.Object) *unstructured.Unstructured {
	defaults.Set(obj)
	return f.Unstructured(obj)
}

// Settle implements Form.
func (f *Typed) Settle(o *unstructured.Unstructured) (*unstructured.Unstructured, []error, error) {
	obj := f.new()
	err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(o.Object, obj, true)
	strictErr, isStrict := runtime.AsStrictDecodingError(err)
	if err != nil && !isStrict {
		return nil, nil, err
	}
	var strict []error
	if isStrict {
		strict = strictErr.Errors()
	}
	return f.filled(obj), strict, nil
}

// Encode implements Form.
func (f *Typed) Encode(o *unstructured.Unstructured) ([]byte, error) {
	obj, err := f.typed(o)
	if err != nil {
		return nil, err
	}
	return stdjson.Marshal(obj)
}

// Empty implements Form. It returns one of its own for each: field managers write into it.
func (f *Typed) Empty() *unstructured.Unstructured { return f.none.DeepCopy() }

// InitialStatus implements Form.
func (f *Typed) InitialStatus() any { return f.status }

// PatchReference implements Form.
func (f *Typed) PatchReference() runtime.Object { return f.reference }

// Versions implements Form.
func (f *Typed) Versions() []string { return []string{f.gvk.GroupVersion().String()} }

func (f *Typed) typed(o *unstructured.Unstructured) (object, error) {
	obj, ok := f.new().(object)
	if !ok {
		return nil, fmt.Errorf("a %s has no metadata", f.gvk.Kind)
	}
	return obj, runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, obj)
}

// Validate implements Form.
func (f *Typed) Validate(o, old *unstructured.Unstructured, subresource string) field.ErrorList {
	now, err := f.typed(withoutSets(o))
	if err != nil {
		return field.ErrorList{field.InternalError(nil, err)}
	}
	if old == nil {
		return create(now, f.namespaced)
	}
	before, err := f.typed(withoutSets(old))
	if err != nil {
		return field.ErrorList{field.InternalError(nil, err)}
	}
	if subresource != "" {
		return Metadata(now, before, f.namespaced)
	}
	return update(now, before, f.namespaced)
}

// withoutSets returns an object whose managedFields do not list the owned fields, which take long to convert and are
// not needed to check an object. It shares all other content with o.
func withoutSets(o *unstructured.Unstructured) *unstructured.Unstructured {
	metadata, _ := o.Object["metadata"].(map[string]any)
	entries, _ := metadata["managedFields"].([]any)
	if len(entries) == 0 {
		return o
	}
	light := make([]any, len(entries))
	for i, entry := range entries {
		light[i] = entry
		if e, ok := entry.(map[string]any); ok {
			e = maps.Clone(e)
			delete(e, "fieldsV1")
			light[i] = e
		}
	}
	content, metadata := maps.Clone(o.Object), maps.Clone(metadata)
	metadata["managedFields"] = light
	content["metadata"] = metadata
	return &unstructured.Unstructured{Object: content}
}
