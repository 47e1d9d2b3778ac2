package kinds

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"

	lru "github.com/hashicorp/golang-lru/v2"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/trellis-hub/trellis/hack/fleetsim/kinds/custom"
	"github.com/trellis-hub/trellis/hack/fleetsim/kinds/discovery"
)

const (
	// registries bounds how many sets of CustomResourceDefinitions are remembered, definitions how many single ones.
	registries  = 64
	definitions = 256
)

// Registry is an immutable set of served resources: built-in ones and those of CustomResourceDefinitions.
type Registry struct {
	resources map[schema.GroupVersionResource]*Resource
	documents *discovery.Documents
}

// BuiltIn returns the registry of the built-in resources, always the same one.
var BuiltIn = sync.OnceValue(func() *Registry {
	r := &Registry{resources: map[schema.GroupVersionResource]*Resource{}, documents: discovery.BuiltIn()}
	for gv, resource := range r.documents.Resources() {
		r.resources[gv.WithResource(resource.Resource)] = newBuiltIn(gv, resource)
	}
	return r
})

var (
	registryCache   = newCache[uint64, *Registry](registries)
	definitionCache = newCache[uint64, *definition](definitions)
)

func newCache[K comparable, V any](size int) *lru.Cache[K, V] {
	cache, err := lru.New[K, V](size)
	if err != nil {
		panic(err) // only a size below one is refused
	}
	return cache
}

// With returns the registry that serves these CustomResourceDefinitions as well, given as apiextensions.k8s.io/v1
// objects and taken to be established. Registries are cached by content: equal definitions give the same registry, as a
// rule. It fails if a definition has no structural schema or takes a resource that is there already.
func (r *Registry) With(crds []*unstructured.Unstructured) (*Registry, error) {
	if len(crds) == 0 {
		return r, nil
	}
	crds = slices.SortedFunc(slices.Values(crds), func(a, b *unstructured.Unstructured) int {
		return cmp.Compare(a.GetName(), b.GetName())
	})
	keys := make([]uint64, len(crds))
	whole := uint64(0)
	for i, crd := range crds {
		keys[i] = digest(crd.GetName()) ^ digest(crd.Object["spec"])
		whole = whole*31 + keys[i]
	}
	if r == BuiltIn() {
		if cached, ok := registryCache.Get(whole); ok {
			return cached, nil
		}
	}

	extended := &Registry{resources: make(map[schema.GroupVersionResource]*Resource, len(r.resources)+len(crds))}
	for gvr, resource := range r.resources {
		extended.resources[gvr] = resource
	}
	var added []*custom.Definition
	for i, crd := range crds {
		d, ok := definitionCache.Get(keys[i])
		if !ok {
			var err error
			if d, err = newDefinition(crd); err != nil {
				return nil, fmt.Errorf("CustomResourceDefinition %s: %w", crd.GetName(), err)
			}
			definitionCache.Add(keys[i], d)
		}
		for _, resource := range d.resources {
			if _, taken := extended.resources[resource.GVR]; taken {
				return nil, fmt.Errorf("CustomResourceDefinition %s: %s is served already", crd.GetName(), resource.GVR)
			}
			extended.resources[resource.GVR] = resource
		}
		added = append(added, d.Definition)
	}
	extended.documents = r.documents.With(added)
	if r == BuiltIn() {
		registryCache.Add(whole, extended)
	}
	return extended, nil
}

// definition is one made ready, with a resource for each served version.
type definition struct {
	*custom.Definition
	resources []*Resource
}

func newDefinition(crd *unstructured.Unstructured) (*definition, error) {
	read, err := custom.New(crd)
	if err != nil {
		return nil, err
	}
	d := &definition{Definition: read}
	for _, version := range read.Served {
		d.resources = append(d.resources, newCustom(read, version))
	}
	return d, nil
}

// Resource returns the resource of a group, version and (plural) name.
func (r *Registry) Resource(gvr schema.GroupVersionResource) (*Resource, bool) {
	resource, ok := r.resources[gvr]
	return resource, ok
}

// Resources returns all resources, one for each served version, sorted by group, version and name.
func (r *Registry) Resources() []*Resource {
	all := make([]*Resource, 0, len(r.resources))
	for _, resource := range r.resources {
		all = append(all, resource)
	}
	slices.SortFunc(all, func(a, b *Resource) int { return strings.Compare(a.sortKey(), b.sortKey()) })
	return all
}

// Aggregated returns the aggregated discovery document (apidiscovery.k8s.io/v2) of "/api" or "/apis" and its ETag,
// quoted. Group versions named stale are said to be stale, and have no resources in it. Any other path gives nothing.
func (r *Registry) Aggregated(path string, stale ...schema.GroupVersion) (doc []byte, etag string) {
	return r.documents.Aggregated(path, stale...)
}

// Legacy returns a discovery document of the older form: "/api", "/apis", "/apis/<group>", "/api/v1" or
// "/apis/<group>/<version>". There is none of a group that is not served.
func (r *Registry) Legacy(path string) (doc []byte, ok bool) { return r.documents.Legacy(path) }
