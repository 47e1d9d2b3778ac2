package custom

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	openapierrors "k8s.io/kube-openapi/pkg/validation/errors"
	"k8s.io/kube-openapi/pkg/validation/validate"
	kjson "sigs.k8s.io/json"

	"github.com/trellis-hub/trellis/hack/fleetsim/kinds/form"
)

// Form reads objects by the schema of a CustomResourceDefinition.
type Form struct {
	gvk        schema.GroupVersionKind
	structural *structuralschema.Structural
	validator  *validate.SchemaValidator
	namespaced bool
	none       *unstructured.Unstructured
	versions   []string
}

func newForm(gvk schema.GroupVersionKind, structural *structuralschema.Structural, namespaced bool) *Form {
	f := &Form{gvk: gvk, structural: structural, validator: newValidator(structural), namespaced: namespaced}
	f.none = &unstructured.Unstructured{Object: map[string]any{}}
	f.none.SetGroupVersionKind(gvk)
	return f
}

// Decode implements form.Form.
func (f *Form) Decode(doc []byte) (*unstructured.Unstructured, []error, error) {
	content := map[string]any{}
	strict, err := kjson.UnmarshalStrict(doc, &content)
	if err != nil {
		return nil, nil, &form.DecodeError{Err: fmt.Errorf("couldn't get version/kind; json parse error: %w", err)}
	}
	o := &unstructured.Unstructured{Object: content}
	if o.GetKind() == "" {
		return nil, nil, &form.DecodeError{Err: fmt.Errorf("Object 'Kind' is missing in '%s'", doc)} //nolint:staticcheck // so worded
	}
	if actual := o.GroupVersionKind().GroupVersion(); actual != f.gvk.GroupVersion() {
		return nil, nil, &form.VersionError{Actual: actual, Expected: f.gvk.GroupVersion()}
	}
	dropNulls(o.Object, f.structural)
	o, unknown, err := f.fill(o)
	return o, append(strict, unknown...), err
}

// Settle implements form.Form.
func (f *Form) Settle(o *unstructured.Unstructured) (*unstructured.Unstructured, []error, error) {
	// It may share content with the live object.
	return f.fill(o.DeepCopy())
}

// fill prunes what the schema does not know and adds its defaults.
func (f *Form) fill(o *unstructured.Unstructured) (*unstructured.Unstructured, []error, error) {
	strict, err := coerceMetadata(o)
	if err != nil {
		return nil, nil, &form.DecodeError{GVK: &f.gvk, Err: err}
	}
	paths := pruning.PruneWithOptions(o.Object, f.structural, true, structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})
	slices.Sort(paths)
	for _, path := range paths {
		strict = append(strict, fmt.Errorf("unknown field %q", path))
	}
	fillDefaults(o.Object, f.structural)
	return o, strict, nil
}

// coerceMetadata drops what metadata does not have.
func coerceMetadata(o *unstructured.Unstructured) ([]error, error) {
	metadata, ok := o.Object["metadata"].(map[string]any)
	if !ok {
		if o.Object["metadata"] != nil {
			return nil, fmt.Errorf("metadata: Invalid value: must be an object")
		}
		o.Object["metadata"] = map[string]any{}
		return nil, nil
	}
	entries, managed := metadata["managedFields"]
	delete(metadata, "managedFields")
	var typed metav1.ObjectMeta
	err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(metadata, &typed, true)
	unknown, isStrict := runtime.AsStrictDecodingError(err)
	if err != nil && !isStrict {
		// What is wrong is for the JSON decoder to say.
		if doc, encodeErr := json.Marshal(metadata); encodeErr == nil {
			if decodeErr := json.Unmarshal(doc, &metav1.ObjectMeta{}); decodeErr != nil {
				err = decodeErr
			}
		}
		return nil, err
	}
	coerced, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&typed)
	if err != nil {
		return nil, err
	}
	if managed {
		coerced["managedFields"] = entries
	}
	o.Object["metadata"] = coerced
	var strict []error
	if isStrict {
		for _, err := range unknown.Errors() {
			strict = append(strict, errors.New(strings.Replace(err.Error(), `"`, `"metadata.`, 1)))
		}
	}
	return strict, nil
}

// dropNulls removes nulls where a schema has none and no default, as an API server does with what it is sent, but not
// with what an apply makes of that.
func dropNulls(value any, s *structuralschema.Structural) {
	if s == nil {
		return
	}
	switch v := value.(type) {
	case map[string]any:
		for name, content := range v {
			inner, known := s.Properties[name]
			if !known {
				if s.AdditionalProperties == nil || s.AdditionalProperties.Structural == nil {
					continue
				}
				inner = *s.AdditionalProperties.Structural
			}
			if content == nil && !inner.Nullable && inner.Default.Object == nil {
				delete(v, name)
			} else {
				dropNulls(content, &inner)
			}
		}
	case []any:
		for _, item := range v {
			dropNulls(item, s.Items)
		}
	}
}

// fillDefaults adds what a schema has defaults for.
func fillDefaults(value any, s *structuralschema.Structural) {
	if s == nil {
		return
	}
	switch v := value.(type) {
	case map[string]any:
		for name, inner := range s.Properties {
			if inner.Default.Object == nil {
				continue
			}
			if existing, found := v[name]; !found || existing == nil && !inner.Nullable {
				v[name] = runtime.DeepCopyJSONValue(inner.Default.Object)
			}
		}
		for name := range v {
			if inner, known := s.Properties[name]; known {
				fillDefaults(v[name], &inner)
			} else if s.AdditionalProperties != nil {
				fillDefaults(v[name], s.AdditionalProperties.Structural)
			}
		}
	case []any:
		for _, item := range v {
			fillDefaults(item, s.Items)
		}
	}
}

// Encode implements form.Form.
func (f *Form) Encode(o *unstructured.Unstructured) ([]byte, error) {
	return json.Marshal(o.Object)
}

// Empty implements form.Form.
func (f *Form) Empty() *unstructured.Unstructured { return f.none.DeepCopy() }

// InitialStatus implements form.Form.
func (f *Form) InitialStatus() any { return nil }

// PatchReference implements form.Form.
func (f *Form) PatchReference() runtime.Object { return nil }

// Versions implements form.Form.
func (f *Form) Versions() []string { return f.versions }

// Validate implements form.Form.
func (f *Form) Validate(o, old *unstructured.Unstructured, _ string) field.ErrorList {
	if kind := o.GetKind(); kind != f.gvk.Kind {
		return field.ErrorList{field.Invalid(field.NewPath("kind"), kind, "must be "+f.gvk.Kind)}
	}
	var errs field.ErrorList
	if old == nil {
		errs = form.NewMetadata(o, f.namespaced)
	} else {
		errs = form.Metadata(o, old, f.namespaced)
		errs = append(errs, apivalidation.ValidateObjectMetaAccessorUpdate(o, old, field.NewPath("metadata"))...)
	}
	if result := f.validator.Validate(o.Object); !result.IsValid() {
		for _, err := range result.Errors {
			errs = append(errs, fieldError(err))
		}
	}
	return append(errs, listtype.ValidateListSetsAndMaps(nil, f.structural, o.Object)...)
}

// fieldError words what is wrong with a value as kube-apiserver does.
func fieldError(err error) *field.Error {
	var v *openapierrors.Validation
	if !errors.As(err, &v) {
		return field.Invalid(nil, nil, err.Error())
	}
	var path *field.Path
	if name := strings.TrimPrefix(v.Name, "."); name != "" {
		path = field.NewPath(name)
	}
	switch v.Code() {
	case openapierrors.RequiredFailCode:
		return field.Required(path, "")
	case openapierrors.InvalidTypeCode:
		value := any("")
		if v.Value != nil {
			value = v.Value
		}
		return field.TypeInvalid(path, value, v.Error())
	case openapierrors.EnumFailCode:
		var values []string
		for _, allowed := range v.Values {
			values = append(values, fmt.Sprint(allowed))
		}
		return field.NotSupported(path, v.Value, values)
	case openapierrors.TooLongFailCode:
		maximum := -1
		if limit, ok := v.Valid.(int64); ok {
			maximum = int(limit)
		}
		return field.TooLong(path, v.Value, maximum)
	case openapierrors.MaxItemsFailCode:
		actual, maximum := -1, -1
		if n, ok := v.Value.(int64); ok {
			actual = int(n)
		}
		if n, ok := v.Valid.(int64); ok {
			maximum = int(n)
		}
		return field.TooMany(path, actual, maximum)
	}
	value := any("")
	if v.Value != nil {
		value = v.Value
	}
	return field.Invalid(path, value, v.Error())
}
