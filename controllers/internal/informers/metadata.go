package informers

import (
	"context"
	"fmt"
	"sync"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Metadata watches the metadata of selected objects for one term of leadership. It is for kinds of which the informers
// of the hub have other objects. Make it with NewMetadata.
type Metadata struct {
	resource  schema.GroupVersionResource
	informers map[string]toolscache.SharedIndexInformer // by namespace
}

// NewMetadata returns a watch that does nothing until it runs. No namespaces: all. Trim drops what is not looked at
// before an object is kept.
func NewMetadata(
	source metadata.Interface, resource schema.GroupVersionResource, selector labels.Selector, namespaces []string,
	trim func(*metav1.PartialObjectMetadata), logger logr.Logger,
) (*Metadata, error) {
	if len(namespaces) == 0 {
		namespaces = []string{metav1.NamespaceAll}
	}
	m := &Metadata{resource: resource, informers: map[string]toolscache.SharedIndexInformer{}}
	for _, namespace := range namespaces {
		informer := metadatainformer.NewFilteredMetadataInformer(source, resource, namespace, 0,
			toolscache.Indexers{toolscache.NamespaceIndex: toolscache.MetaNamespaceIndexFunc},
			func(options *metav1.ListOptions) { options.LabelSelector = selector.String() },
		).Informer()
		err := informer.SetTransform(func(obj any) (any, error) {
			if object, is := obj.(*metav1.PartialObjectMetadata); is {
				trim(object)
			}
			return obj, nil
		})
		if err != nil {
			return nil, fmt.Errorf("watching the metadata of %s: %w", resource.Resource, err)
		}
		err = informer.SetWatchErrorHandlerWithContext(
			func(_ context.Context, _ *toolscache.Reflector, err error) {
				if expired := apierrors.IsResourceExpired(err) || apierrors.IsGone(err); !expired {
					logger.Info("Cannot watch in the source, trying again", "resource", resource.Resource, "error", err.Error())
				}
			})
		if err != nil {
			return nil, fmt.Errorf("watching the metadata of %s: %w", resource.Resource, err)
		}
		m.informers[namespace] = informer
	}
	return m, nil
}

// Run watches until ctx ends, and returns when nothing is left of the watch. It can be called once.
func (m *Metadata) Run(ctx context.Context) {
	var running sync.WaitGroup
	for _, informer := range m.informers {
		running.Go(func() { informer.RunWithContext(ctx) })
	}
	running.Wait()
}

// Follow calls changed for all changes until ctx ends, as the function Follow does.
func (m *Metadata) Follow(ctx context.Context, work *sync.WaitGroup, changed func(before, after client.Object)) error {
	for _, informer := range m.informers {
		err := follow(ctx, informer, work, func(before, after *metav1.PartialObjectMetadata, _ bool) {
			switch { // a nil pointer in an interface is not nil
			case before == nil:
				changed(nil, after)
			case after == nil:
				changed(before, nil)
			default:
				changed(before, after)
			}
		})
		if err != nil {
			return fmt.Errorf("watching the metadata of %s: %w", m.resource.Resource, err)
		}
	}
	return nil
}

// Lookup returns what is kept of an object, which is shared and not to be changed; nil if there is none.
func (m *Metadata) Lookup(name types.NamespacedName) *metav1.PartialObjectMetadata {
	informer := m.informerOf(name.Namespace)
	if informer == nil {
		return nil
	}
	obj, found, err := informer.GetStore().GetByKey(name.String())
	if err != nil || !found {
		return nil
	}
	object, _ := obj.(*metav1.PartialObjectMetadata)
	return object
}

// InNamespace returns what is kept of all objects of a namespace, which is shared and not to be changed.
func (m *Metadata) InNamespace(_ context.Context, namespace string) ([]client.Object, error) {
	informer := m.informerOf(namespace)
	if informer == nil {
		return nil, nil
	}
	kept, err := informer.GetIndexer().ByIndex(toolscache.NamespaceIndex, namespace)
	if err != nil {
		return nil, fmt.Errorf("listing the metadata of %s of namespace %s: %w", m.resource.Resource, namespace, err)
	}
	objects := make([]client.Object, 0, len(kept))
	for _, obj := range kept {
		if object, is := obj.(*metav1.PartialObjectMetadata); is {
			objects = append(objects, object)
		}
	}
	return objects, nil
}

func (m *Metadata) informerOf(namespace string) toolscache.SharedIndexInformer {
	if informer, found := m.informers[namespace]; found {
		return informer
	}
	return m.informers[metav1.NamespaceAll]
}
