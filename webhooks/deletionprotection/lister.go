package deletionprotection

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-hub/trellis/clustercache"
)

const (
	// pageSize is how many objects are read with a call, and maxObjects how many in all.
	pageSize, maxObjects = 500, 10_000
	// callTimeout bounds a call.
	callTimeout = time.Second
)

// Lister reads from targets.
type Lister interface {
	// List returns the metadata of objects of a kind, in a namespace unless that is empty. The error is one of
	// apierrors.IsNotFound or meta.IsNoMatchError if there is no such kind.
	List(
		ctx context.Context, target clustercache.ClusterKey, kind schema.GroupVersionKind, namespace string,
		selector labels.Selector,
	) ([]metav1.PartialObjectMetadata, error)
}

// Clients are where clients of targets come from, such as a clustercache.ClusterCache.
type Clients interface {
	GetUncachedClient(ctx context.Context, key clustercache.ClusterKey) (client.Client, error)
}

// NewLister reads through the connections to targets.
func NewLister(clients Clients) Lister { return lister{clients} }

type lister struct{ clients Clients }

func (l lister) List(
	ctx context.Context, target clustercache.ClusterKey, kind schema.GroupVersionKind, namespace string,
	selector labels.Selector,
) ([]metav1.PartialObjectMetadata, error) {
	c, err := l.clients.GetUncachedClient(ctx, target)
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", kind.Kind, err)
	}
	var objects []metav1.PartialObjectMetadata
	for next := ""; ; {
		page := &metav1.PartialObjectMetadataList{}
		page.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		if err := call(ctx, c, page, &client.ListOptions{
			Namespace: namespace, LabelSelector: selector, Limit: pageSize, Continue: next,
		}); err != nil {
			return nil, fmt.Errorf("list %s: %w", kind.Kind, err)
		}
		objects = append(objects, page.Items...)
		if next = page.Continue; next == "" {
			return objects, nil
		}
		if len(objects) >= maxObjects {
			return nil, fmt.Errorf("list %s: there are more than %d", kind.Kind, maxObjects)
		}
	}
}

func call(ctx context.Context, c client.Client, into client.ObjectList, options *client.ListOptions) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return c.List(ctx, into, options)
}
