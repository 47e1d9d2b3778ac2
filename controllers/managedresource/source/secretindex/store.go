package secretindex

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/pager"
)

// store is the index as the reflector of a namespace sees it: it takes events and keeps next to nothing.
type store struct {
	index     *Index
	namespace string // empty for all
	listed    bool

	// from is how many references had been noted when the list began. Only used by the goroutine of the reflector.
	from uint64
}

var _ toolscache.ReflectorStore = &store{}

func (s *store) Add(obj any) error    { return s.Update(obj) }
func (s *store) Resync() error        { return nil }
func (s *store) Update(obj any) error { return s.event(obj, false) }
func (s *store) Delete(obj any) error { return s.event(obj, true) }

func (s *store) event(obj any, gone bool) error {
	m, err := meta.Accessor(obj)
	if err != nil {
		return fmt.Errorf("unexpected object in the watch of Secrets: %w", err)
	}
	version := Version{UID: m.GetUID(), ResourceVersion: m.GetResourceVersion()}
	if gone {
		version = Version{}
	}
	s.index.changed(types.NamespacedName{Namespace: m.GetNamespace(), Name: m.GetName()}, version, m.GetResourceVersion())
	return nil
}

// Replace takes a complete list: what is referenced and not in it does not exist, unless the reference came while the
// list was read and the Secret may have counted as foreign.
func (s *store) Replace(list []any, resourceVersion string) error {
	x := s.index
	present := make(map[types.NamespacedName]Version)
	x.mu.Lock()
	referenced := make(map[types.NamespacedName]bool, len(x.refs)) // false: not to be found in the list for certain
	for name := range x.refs {
		if s.namespace == metav1.NamespaceAll || s.namespace == name.Namespace {
			referenced[name] = x.noted[name] <= s.from
		}
	}
	x.mu.Unlock()
	for _, obj := range list {
		m, err := meta.Accessor(obj)
		if err != nil {
			return fmt.Errorf("unexpected object in the list of Secrets: %w", err)
		}
		name := types.NamespacedName{Namespace: m.GetNamespace(), Name: m.GetName()}
		if _, wanted := referenced[name]; wanted {
			present[name] = Version{UID: m.GetUID(), ResourceVersion: m.GetResourceVersion()}
		}
	}
	for name, certain := range referenced {
		if !certain && !present[name].Exists() {
			x.lose(name) // it counted as foreign, or is not there: it is read
			continue
		}
		at := resourceVersion
		if v := present[name]; v.Exists() {
			at = v.ResourceVersion
		}
		x.changed(name, present[name], at)
	}
	if !s.listed {
		s.listed = true
		x.listed()
	}
	return nil
}

// pageSize is how many Secrets a page of a list has. Each may have hundreds of KiB of annotations.
const pageSize = 100

// list reads a list page by page and returns the Secrets that are referenced. A reflector keeps a list until it is
// complete, and the names alone of a hundred thousand foreign Secrets would be more than the rest of the hub.
func (s *store) list(ctx context.Context, secrets metadata.ResourceInterface, o metav1.ListOptions) (
	*metav1.PartialObjectMetadataList, error,
) {
	s.index.mu.Lock()
	s.from = s.index.notes
	s.index.mu.Unlock()
	result := &metav1.PartialObjectMetadataList{}
	// Asked for a version, API servers may answer from their cache, which has no pages.
	o.ResourceVersion, o.ResourceVersionMatch, o.Limit = "", "", pageSize
	pages := pager.New(func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		page, err := secrets.List(ctx, o)
		if err == nil {
			result.ListMeta = metav1.ListMeta{ResourceVersion: page.ResourceVersion}
		}
		return page, err //nolint:wrapcheck // the reflector needs to know its kind
	})
	pages.PageBufferSize = 1
	err := pages.EachListItem(ctx, o, func(obj runtime.Object) error {
		if secret, ok := obj.(*metav1.PartialObjectMetadata); ok && !s.index.foreign(secret) {
			result.Items = append(result.Items, *secret)
		}
		return nil
	})
	return result, err //nolint:wrapcheck // likewise
}

// foreign reports whether no ManagedResource refers to a Secret.
func (x *Index) foreign(secret *metav1.PartialObjectMetadata) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.refs[types.NamespacedName{Namespace: secret.Namespace, Name: secret.Name}].none()
}

// listed notes that one more watch has seen a list. The last one makes the index synced.
func (x *Index) listed() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.unlisted--; x.unlisted == 0 {
		close(x.synced)
	}
}
