package multicluster

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-hub/trellis/controllers/internal/informers"
)

// sharedInformer is a watch by the informers of the hub.
type sharedInformer struct {
	environment *Environment
	kind        client.Object
	list        client.ObjectList
}

// Follow implements SourceObjects.
func (s *sharedInformer) Follow(
	ctx context.Context, work *sync.WaitGroup, changed func(before, after client.Object),
) error {
	return informers.Follow(ctx, s.environment.Source, s.kind, work, func(before, after client.Object, _ bool) {
		changed(before, after)
	})
}

// InNamespace implements SourceObjects.
func (s *sharedInformer) InNamespace(ctx context.Context, namespace string) ([]client.Object, error) {
	list, is := s.list.DeepCopyObject().(client.ObjectList)
	if !is {
		return nil, fmt.Errorf("%T is no list", s.list)
	}
	err := s.environment.Source.List(ctx, list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("listing %T of namespace %s: %w", s.kind, namespace, err)
	}
	var objects []client.Object
	err = meta.EachListItem(list, func(item runtime.Object) error {
		if obj, is := item.(client.Object); is {
			objects = append(objects, obj)
		}
		return nil
	})
	return objects, err
}
