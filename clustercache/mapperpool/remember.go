package mapperpool

import (
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// remembering is a mapper that never changes and remembers the mappings of single versions: they are asked for several
// times for each object that is applied, and working one out means going through every group.
type remembering struct {
	meta.RESTMapper
	known sync.Map // schema.GroupVersionKind -> meta.RESTMapping
}

// Remember returns a mapper that remembers the mappings of single versions permanently, for callers that need those of
// a few kinds that stay what they are. What the other one does not know it is asked for again.
func Remember(m meta.RESTMapper) meta.RESTMapper { return &remembering{RESTMapper: m} }

// RESTMapping implements meta.RESTMapper. What it returns belongs to the caller.
func (r *remembering) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	if len(versions) != 1 {
		return r.RESTMapper.RESTMapping(kind, versions...)
	}
	gvk := kind.WithVersion(versions[0])
	if known, ok := r.known.Load(gvk); ok {
		mapping, _ := known.(meta.RESTMapping)
		return &mapping, nil
	}
	mapping, err := r.RESTMapper.RESTMapping(kind, versions...)
	if err == nil {
		r.known.Store(gvk, *mapping)
	}
	return mapping, err
}
