package kinds

import (
	"errors"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Registry is an immutable set of served resources: built-in ones and those of CustomResourceDefinitions.
type Registry struct{}

// BuiltIn returns the registry of the built-in resources.
func BuiltIn() *Registry { return &Registry{} }

// With returns the registry that serves these CustomResourceDefinitions (apiextensions.k8s.io/v1, as stored) as well.
func (r *Registry) With(crds []*unstructured.Unstructured) (*Registry, error) {
	return nil, errors.ErrUnsupported
}

// Resource returns the resource of a group, version and (plural) name.
func (r *Registry) Resource(gvr schema.GroupVersionResource) (*Resource, bool) { return nil, false }

// Resources returns all resources, sorted.
func (r *Registry) Resources() []*Resource { return nil }

// Aggregated returns the aggregated discovery document of "/api" or "/apis" and its ETag.
func (r *Registry) Aggregated(path string, stale ...schema.GroupVersion) (doc []byte, etag string) {
	return nil, ""
}

// Legacy returns a discovery document of the older form: "/api", "/apis", "/apis/<group>", "/api/v1", "/apis/<group>/<version>".
func (r *Registry) Legacy(path string) (doc []byte, ok bool) { return nil, false }

// OpenAPI returns a document of OpenAPI v3: "/openapi/v3" or "/openapi/v3/<group version>".
func (r *Registry) OpenAPI(path string) (doc []byte, ok bool) { return nil, false }
