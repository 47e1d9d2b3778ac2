package watching

import (
	"context"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// ErrNotCached is returned for what no watch can answer.
var ErrNotCached = errors.New("kind is not watched in the target cluster")

// Reader reads from what watches keep. Only a watch that selects all objects of a kind (of a namespace) and keeps
// objects can answer: with others it is not known that an object does not exist.
type Reader struct {
	// Watches returns the watches of the target.
	Watches func() []*Stream
	Scheme  *runtime.Scheme
}

// Client reads from watches what it can, and does the rest through another client.
type Client struct {
	client.Client
	Reader *Reader
}

// Get implements client.Reader.
func (c *Client) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	err := c.Reader.Get(ctx, key, obj, opts...)
	if errors.Is(err, ErrNotCached) {
		return c.Client.Get(ctx, key, obj, opts...)
	}
	return err
}

// List implements client.Reader.
func (c *Client) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	err := c.Reader.List(ctx, list, opts...)
	if errors.Is(err, ErrNotCached) {
		return c.Client.List(ctx, list, opts...)
	}
	return err
}

// Get implements client.Reader.
func (r *Reader) Get(_ context.Context, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	kind, err := apiutil.GVKForObject(obj, r.Scheme)
	if err != nil {
		return fmt.Errorf("kind of the object: %w", err)
	}
	_, metadataOnly := obj.(*metav1.PartialObjectMetadata)
	w := r.find(kind, metadataOnly, key.Namespace)
	if w == nil {
		return notCached(kind)
	}
	value, found, synced := w.Lookup(key)
	switch {
	case !synced:
		return notCached(kind)
	case !found:
		return apierrors.NewNotFound(schema.GroupResource{Group: kind.Group, Resource: strings.ToLower(kind.Kind)}, key.Name)
	}
	return copyInto(value, obj, kind)
}

// List implements client.Reader.
func (r *Reader) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	listKind, err := apiutil.GVKForObject(list, r.Scheme)
	if err != nil {
		return fmt.Errorf("kind of the list: %w", err)
	}
	kind := listKind
	kind.Kind = strings.TrimSuffix(kind.Kind, "List")
	options := client.ListOptions{}
	options.ApplyOptions(opts)
	_, metadataOnly := list.(*metav1.PartialObjectMetadataList)
	w := r.find(kind, metadataOnly, options.Namespace)
	if w == nil || options.FieldSelector != nil {
		return notCached(kind)
	}
	selector := options.LabelSelector
	if selector == nil {
		selector = labels.Everything()
	}
	var items []runtime.Object
	var fault error
	synced := w.Range(func(key types.NamespacedName, value any) bool {
		obj, ok := value.(client.Object)
		if ok && (options.Namespace != "" && key.Namespace != options.Namespace ||
			!selector.Matches(labels.Set(obj.GetLabels()))) {
			return true
		}
		var item client.Object
		if item, fault = r.newItem(list, kind); fault == nil {
			fault = copyInto(value, item, kind)
		}
		items = append(items, item)
		return fault == nil
	})
	if !synced {
		return notCached(kind)
	}
	if fault != nil {
		return fault
	}
	if err := meta.SetList(list, items); err != nil {
		return fmt.Errorf("cannot fill the list: %w", err)
	}
	return nil
}

// find returns a watch that knows all objects of a kind in a namespace.
func (r *Reader) find(kind schema.GroupVersionKind, metadataOnly bool, namespace string) *Stream {
	for _, w := range r.Watches() {
		spec := &w.spec
		everything := (spec.LabelSelector == nil || spec.LabelSelector.Empty()) &&
			(spec.FieldSelector == nil || spec.FieldSelector.Empty())
		if spec.Kind == kind && spec.MetadataOnly == metadataOnly && everything &&
			(spec.Namespace == "" || spec.Namespace == namespace) {
			return w
		}
	}
	return nil
}

func (r *Reader) newItem(list client.ObjectList, kind schema.GroupVersionKind) (client.Object, error) {
	switch list.(type) {
	case *metav1.PartialObjectMetadataList:
		return &metav1.PartialObjectMetadata{}, nil
	case *unstructured.UnstructuredList:
		return &unstructured.Unstructured{}, nil
	}
	created, err := r.Scheme.New(kind)
	if err != nil {
		return nil, fmt.Errorf("kind of the list: %w", err)
	}
	obj, ok := created.(client.Object)
	if !ok {
		return nil, notCached(kind)
	}
	return obj, nil
}

// copyInto copies what a watch keeps into an object of the caller's. What is no object, or not of a fitting type,
// counts as not cached.
func copyInto(value any, obj client.Object, kind schema.GroupVersionKind) error {
	switch from := value.(type) {
	case *metav1.PartialObjectMetadata:
		if into, ok := obj.(*metav1.PartialObjectMetadata); ok {
			from.DeepCopyInto(into)
			into.SetGroupVersionKind(kind)
			return nil
		}
	case *unstructured.Unstructured:
		if into, ok := obj.(*unstructured.Unstructured); ok {
			from.DeepCopyInto(into)
			return nil
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(from.DeepCopy().Object, obj); err != nil {
			return fmt.Errorf("cannot convert a watched %s: %w", kind.Kind, err)
		}
		return nil
	}
	return notCached(kind)
}

func notCached(kind schema.GroupVersionKind) error {
	return fmt.Errorf("%s: %w", kind.Kind, ErrNotCached)
}
