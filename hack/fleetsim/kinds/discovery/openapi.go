package discovery

import (
	"crypto/sha512"
	"fmt"
	"maps"
	"slices"
	"strings"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/trellis-hub/trellis/hack/fleetsim/kinds/form"
)

const openAPIPath = "/openapi/v3"

// object is a JSON object of an OpenAPI document.
type object = map[string]any

// OpenAPI returns a document of OpenAPI v3: "/openapi/v3", the index, or "/openapi/v3/<group version>", as in
// "/openapi/v3/api/v1" and "/openapi/v3/apis/apps/v1". There is a schema for every kind, of the Go types for built-in ones,
// with what strategic merge patches need, and a path for every resource with its verbs and whether it takes the parameter
// fieldValidation. Descriptions, formats of most values, list types of built-in kinds, parameters and responses are left out.
func (d *Documents) OpenAPI(path string) (doc []byte, ok bool) {
	if path == openAPIPath {
		return d.cache.get(path, d.openAPIIndex), true
	}
	rest, ok := strings.CutPrefix(path, openAPIPath+"/")
	if !ok {
		return nil, false
	}
	gv, ok := d.groupVersions()[rest]
	if !ok {
		return nil, false
	}
	return d.cache.get(path, func() any { return d.openAPIOf(gv) }), true
}

// groupVersions are those served, by their path: api/v1, apis/apps/v1.
func (d *Documents) groupVersions() map[string]schema.GroupVersion {
	served := map[string]schema.GroupVersion{}
	for gv := range d.Resources() {
		served[rootOf(gv)] = gv
	}
	return served
}

func rootOf(gv schema.GroupVersion) string {
	if gv.Group == "" {
		return "api/" + gv.Version
	}
	return "apis/" + gv.String()
}

func (d *Documents) openAPIIndex() any {
	paths := object{}
	for root := range d.groupVersions() {
		doc, _ := d.OpenAPI(openAPIPath + "/" + root)
		paths[root] = object{"serverRelativeURL": fmt.Sprintf("%s/%s?hash=%X", openAPIPath, root, sha512.Sum512(doc))}
	}
	return object{"paths": paths}
}

func (d *Documents) openAPIOf(gv schema.GroupVersion) any {
	paths, schemas := object{}, map[string]any{}
	models := models{}
	known := form.Scheme.AllKnownTypes()
	for served, resource := range d.Resources() {
		if served != gv {
			continue
		}
		maps.Copy(paths, pathsOf(gv, resource))
		gvk := gv.WithKind(resource.ResponseKind.Kind)
		if goType, ok := known[gvk]; ok {
			models[models.add(goType)]["x-kubernetes-group-version-kind"] = []any{kindOf(gvk)}
		}
	}
	for name, model := range models {
		schemas[name] = model
	}
	for _, v := range d.custom {
		if v.GroupVersion != gv {
			continue
		}
		schemas[v.SchemaName] = v.Schema
		for name, common := range form.Schemas() {
			if strings.HasPrefix(name, form.MetaPrefix) {
				schemas[name] = common
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
func pathsOf(gv schema.GroupVersion, r apidiscoveryv2.APIResourceDiscovery) object {
	collection := "/" + rootOf(gv) + "/"
	if r.Scope == apidiscoveryv2.ScopeNamespace {
		collection += "namespaces/{namespace}/"
	}
	collection += r.Resource
	paths := object{}
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
		operations, ok := paths[path].(object)
		if !ok {
			operations = object{}
			paths[path] = operations
		}
		operations[method] = operation
	}
	gvk := gv.WithKind(r.ResponseKind.Kind)
	for _, m := range methods {
		if !slices.Contains(r.Verbs, m.verb) {
			continue
		}
		if m.collection {
			add(collection, m.method, m.action, gvk)
		} else {
			add(collection+"/{name}", m.method, m.action, gvk)
		}
	}
	for _, sub := range r.Subresources {
		gvk := schema.GroupVersionKind(*sub.ResponseKind)
		if gvk.Version == "" {
			gvk = gv.WithKind(gvk.Kind)
		}
		for _, m := range methods {
			if slices.Contains(sub.Verbs, m.verb) {
				add(collection+"/{name}/"+sub.Subresource, m.method, m.action, gvk)
			}
		}
	}
	return paths
}
