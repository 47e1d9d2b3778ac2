package kinds

import (
	"crypto/sha512"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
)

const openAPIPath = "/openapi/v3"

// object is a JSON object of an OpenAPI document.
type object = map[string]any

// OpenAPI returns a document of OpenAPI v3: "/openapi/v3", the index, or "/openapi/v3/<group version>", as in
// "/openapi/v3/api/v1" and "/openapi/v3/apis/apps/v1". There is a schema for every kind, of the Go types for built-in ones,
// with what strategic merge patches need, and a path for every resource with its verbs and whether it takes the parameter
// fieldValidation. Descriptions, formats of most values, list types of built-in kinds, parameters and responses are left out.
func (r *Registry) OpenAPI(path string) (doc []byte, ok bool) {
	if path == openAPIPath {
		return r.documents.get(path, r.openAPIIndex), true
	}
	rest, ok := strings.CutPrefix(path, openAPIPath+"/")
	if !ok {
		return nil, false
	}
	gv, ok := r.groupVersions()[rest]
	if !ok {
		return nil, false
	}
	return r.documents.get(path, func() any { return r.openAPIOf(gv) }), true
}

// groupVersions are those served, by their path: api/v1, apis/apps/v1.
func (r *Registry) groupVersions() map[string]schema.GroupVersion {
	served := map[string]schema.GroupVersion{}
	for gvr := range r.resources {
		served[rootOf(gvr.GroupVersion())] = gvr.GroupVersion()
	}
	return served
}

func rootOf(gv schema.GroupVersion) string {
	if gv.Group == "" {
		return "api/" + gv.Version
	}
	return "apis/" + gv.String()
}

func (r *Registry) openAPIIndex() any {
	paths := object{}
	for root := range r.groupVersions() {
		doc, _ := r.OpenAPI(openAPIPath + "/" + root)
		paths[root] = object{"serverRelativeURL": fmt.Sprintf("%s/%s?hash=%X", openAPIPath, root, sha512.Sum512(doc))}
	}
	return object{"paths": paths}
}

func (r *Registry) openAPIOf(gv schema.GroupVersion) any {
	paths, schemas := object{}, map[string]any{}
	models := models{}
	for _, res := range r.Resources() {
		if res.GVR.GroupVersion() != gv {
			continue
		}
		for path, operations := range pathsOf(res) {
			paths[path] = operations
		}
		if scheme.Recognizes(res.GVK()) {
			models[models.add(goType(res.GVK()))]["x-kubernetes-group-version-kind"] = []any{kindOf(res.GVK())}
		}
	}
	for name, model := range models {
		schemas[name] = model
	}
	for _, d := range r.definitions {
		for _, res := range d.resources {
			if name := schemaName(res.GVK()); res.GVR.GroupVersion() == gv {
				schemas[name] = d.schemas[name]
				for name, common := range commonSchemas() {
					if strings.HasPrefix(name, metaPrefix) {
						schemas[name] = common
					}
				}
			}
		}
	}
	return object{
		"openapi": "3.0.0", "info": object{"title": "Kubernetes", "version": "unversioned"},
		"paths": paths, "components": object{"schemas": schemas},
	}
}

func kindOf(gvk schema.GroupVersionKind) object {
	return object{"group": gvk.Group, "version": gvk.Version, "kind": gvk.Kind}
}

// methods are the HTTP methods of the verbs of an object, by method: the verb and how OpenAPI calls it.
var methods = []struct {
	method, verb, action string
	collection           bool
}{
	{"get", "list", "list", true},
	{"post", "create", "post", true},
	{"delete", "deletecollection", "deletecollection", true},
	{"get", "get", "get", false},
	{"put", "update", "put", false},
	{"patch", "patch", "patch", false},
	{"delete", "delete", "delete", false},
}

// pathsOf are the paths of a resource.
func pathsOf(r *Resource) map[string]object {
	collection := "/" + rootOf(r.GVR.GroupVersion()) + "/"
	if r.Namespaced {
		collection += "namespaces/{namespace}/"
	}
	collection += r.GVR.Resource
	paths := map[string]object{}
	add := func(path, method, action string, gvk schema.GroupVersionKind) {
		operation := object{
			"x-kubernetes-action": action, "x-kubernetes-group-version-kind": kindOf(gvk),
			"responses": object{"200": object{"description": "OK"}},
		}
		if method == "post" || method == "put" || method == "patch" {
			operation["parameters"] = []any{
				object{"name": "fieldManager", "in": "query", "schema": object{"type": "string"}},
				object{"name": "fieldValidation", "in": "query", "schema": object{"type": "string"}},
			}
		}
		if paths[path] == nil {
			paths[path] = object{}
		}
		paths[path][method] = operation
	}
	for _, m := range methods {
		if !slices.Contains(r.Verbs, m.verb) {
			continue
		}
		if m.collection {
			add(collection, m.method, m.action, r.GVK())
		} else {
			add(collection+"/{name}", m.method, m.action, r.GVK())
		}
	}
	for _, sub := range r.discovery.Subresources {
		gvk := schema.GroupVersionKind(*sub.ResponseKind)
		if gvk.Version == "" {
			gvk = r.GVR.GroupVersion().WithKind(gvk.Kind)
		}
		for _, m := range methods {
			if slices.Contains(sub.Verbs, m.verb) {
				add(collection+"/{name}/"+sub.Subresource, m.method, m.action, gvk)
			}
		}
	}
	return paths
}

func goType(gvk schema.GroupVersionKind) reflect.Type { return scheme.AllKnownTypes()[gvk] }

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
		return object{"$ref": schemaPrefix + m.add(t)}
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
