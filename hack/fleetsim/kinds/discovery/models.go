package discovery

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/trellis-hub/trellis/hack/fleetsim/kinds/form"
)

// models are the schemas of Go types, by name.
type models map[string]object

// leaves are types that JSON does not show as what they are in Go.
var leaves = map[reflect.Type]object{
	reflect.TypeFor[metav1.Time]():          {"type": "string", "format": "date-time"},
	reflect.TypeFor[metav1.MicroTime]():     {"type": "string", "format": "date-time"},
	reflect.TypeFor[metav1.Duration]():      {"type": "string"},
	reflect.TypeFor[resource.Quantity]():    {"type": "string"},
	reflect.TypeFor[intstr.IntOrString]():   {"format": "int-or-string", "oneOf": []any{object{"type": "integer"}, object{"type": "string"}}},
	reflect.TypeFor[runtime.RawExtension](): {"type": "object"},
	reflect.TypeFor[metav1.FieldsV1]():      {"type": "object"},
	reflect.TypeFor[[]byte]():               {"type": "string", "format": "byte"},

	reflect.TypeFor[apiextensionsv1.JSON]():                         {},
	reflect.TypeFor[apiextensionsv1.JSONSchemaPropsOrArray]():       {},
	reflect.TypeFor[apiextensionsv1.JSONSchemaPropsOrBool]():        {},
	reflect.TypeFor[apiextensionsv1.JSONSchemaPropsOrStringArray](): {},
}

// add makes the schema of a struct, unless it is there, and returns its name.
func (m models) add(t reflect.Type) string {
	name := modelName(t)
	if _, ok := m[name]; ok {
		return name
	}
	properties := object{}
	m[name] = object{"type": "object", "properties": properties} // before its fields: types refer to each other
	m.fields(t, properties)
	return name
}

// fields adds the fields of a struct, and those of the ones within it that JSON does not tell apart.
func (m models) fields(t reflect.Type, properties object) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case strings.Contains(options, "inline") || f.Anonymous && name == "":
			m.fields(f.Type, properties)
		case name != "" && name != "-":
			property := m.of(f.Type)
			if strategy := f.Tag.Get("patchStrategy"); strategy != "" {
				property = withExtension(property, "x-kubernetes-patch-strategy", strategy)
			}
			if key := f.Tag.Get("patchMergeKey"); key != "" {
				property = withExtension(property, "x-kubernetes-patch-merge-key", key)
			}
			properties[name] = property
		}
	}
}

// withExtension adds to a schema; next to a reference, which stands alone, by way of allOf.
func withExtension(property object, key, value string) object {
	if property["$ref"] != nil {
		property = object{"allOf": []any{property}}
	}
	property = maps.Clone(property)
	property[key] = value
	return property
}

// of is the schema of a type, or a reference to it.
func (m models) of(t reflect.Type) object {
	if leaf, ok := leaves[t]; ok {
		return leaf
	}
	switch t.Kind() {
	case reflect.Pointer:
		return m.of(t.Elem())
	case reflect.Struct:
		return object{"$ref": form.SchemaPrefix + m.add(t)}
	case reflect.Slice:
		return object{"type": "array", "items": m.of(t.Elem())}
	case reflect.Map:
		return object{"type": "object", "additionalProperties": m.of(t.Elem())}
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Int, reflect.Int32, reflect.Int64, reflect.Uint8, reflect.Uint32, reflect.Uint64:
		return object{"type": "integer"}
	case reflect.Float32, reflect.Float64:
		return object{"type": "number"}
	}
	return object{"type": "string"}
}

// modelName is how kube-apiserver names the schema of a Go type: io.k8s.api.apps.v1.Deployment.
func modelName(t reflect.Type) string {
	if named, ok := reflect.New(t).Interface().(interface{ OpenAPIModelName() string }); ok {
		return named.OpenAPIModelName()
	}
	if strings.HasPrefix(t.Name(), "APIService") {
		return "io.k8s.kube-aggregator.pkg.apis.apiregistration.v1." + strings.Replace(t.Name(), "APIServiceReference", "ServiceReference", 1)
	}
	host, rest, _ := strings.Cut(t.PkgPath(), "/")
	parts := strings.Split(host, ".")
	slices.Reverse(parts)
	return strings.Join(append(parts, strings.ReplaceAll(rest, "/", "."), t.Name()), ".")
}
