package connection

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-hub/trellis/clustercache/internal/answers"
)

var (
	_ client.Client              = scopedClient{}
	_ metadata.Interface         = scopedMetadata{}
	_ metadata.Getter            = scopedGetter{}
	_ metadata.ResourceInterface = scopedResource{}
)

// scopedClient keeps the seats of large answers until they are decoded.
type scopedClient struct{ client.Client }

// Get implements client.Reader.
func (c scopedClient) Get(
	ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption,
) error {
	ctx, done := answers.Scope(ctx)
	defer done()
	return c.Client.Get(ctx, key, obj, opts...) //nolint:wrapcheck // as it is without this type
}

// List implements client.Reader.
func (c scopedClient) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	ctx, done := answers.Scope(ctx)
	defer done()
	return c.Client.List(ctx, list, opts...) //nolint:wrapcheck // as it is without this type
}

// Create implements client.Writer.
func (c scopedClient) Create(ctx context.Context, obj client.Object, opts ...client.CreateOption) error {
	ctx, done := answers.Scope(ctx)
	defer done()
	return c.Client.Create(ctx, obj, opts...) //nolint:wrapcheck // as it is without this type
}

// Update implements client.Writer.
func (c scopedClient) Update(ctx context.Context, obj client.Object, opts ...client.UpdateOption) error {
	ctx, done := answers.Scope(ctx)
	defer done()
	return c.Client.Update(ctx, obj, opts...) //nolint:wrapcheck // as it is without this type
}

// Patch implements client.Writer.
func (c scopedClient) Patch(
	ctx context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption,
) error {
	ctx, done := answers.Scope(ctx)
	defer done()
	return c.Client.Patch(ctx, obj, patch, opts...) //nolint:wrapcheck // as it is without this type
}

// scopedMetadata is scopedClient for metadata.
type scopedMetadata struct{ metadata.Interface }

// Resource implements metadata.Interface.
func (m scopedMetadata) Resource(resource schema.GroupVersionResource) metadata.Getter {
	getter := m.Interface.Resource(resource)
	return scopedGetter{scopedResource{getter}, getter}
}

// scopedGetter is a resource in all namespaces, or outside of them.
type scopedGetter struct {
	scopedResource

	getter metadata.Getter
}

// Namespace implements metadata.Getter.
func (g scopedGetter) Namespace(namespace string) metadata.ResourceInterface {
	return scopedResource{g.getter.Namespace(namespace)}
}

type scopedResource struct{ metadata.ResourceInterface }

// Get implements metadata.ResourceInterface.
func (r scopedResource) Get(
	ctx context.Context, name string, options metav1.GetOptions, subresources ...string,
) (*metav1.PartialObjectMetadata, error) {
	ctx, done := answers.Scope(ctx)
	defer done()
	return r.ResourceInterface.Get(ctx, name, options, subresources...) //nolint:wrapcheck // as it is without this type
}

// List implements metadata.ResourceInterface.
func (r scopedResource) List(
	ctx context.Context, options metav1.ListOptions,
) (*metav1.PartialObjectMetadataList, error) {
	ctx, done := answers.Scope(ctx)
	defer done()
	return r.ResourceInterface.List(ctx, options) //nolint:wrapcheck // as it is without this type
}

// Patch implements metadata.ResourceInterface.
func (r scopedResource) Patch(
	ctx context.Context, name string, kind types.PatchType, data []byte, options metav1.PatchOptions,
	subresources ...string,
) (*metav1.PartialObjectMetadata, error) {
	ctx, done := answers.Scope(ctx)
	defer done()
	//nolint:wrapcheck // as it is without this type
	return r.ResourceInterface.Patch(ctx, name, kind, data, options, subresources...)
}
