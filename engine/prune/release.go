package prune

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/engine/inventory"
)

// Releaser removes the marks of a ManagedResource from objects. It caches what it finds out about kinds for one run.
type Releaser struct {
	kinds                kinds
	origin, fieldManager string
}

// NewReleaser returns a Releaser of a ManagedResource's objects in a target.
func NewReleaser(t Target, origin, fieldManager string) *Releaser {
	return &Releaser{kinds: kinds{Target: t}, origin: origin, fieldManager: fieldManager}
}

// Release removes the marks from an object that is no longer managed. An object of another origin is not changed. It is
// safe for concurrent use.
func (r *Releaser) Release(ctx context.Context, ref resourcesv1alpha1.ObjectReference) error {
	return r.kinds.release(ctx, ref, r.origin, r.fieldManager)
}

func (k *kinds) release(ctx context.Context, ref resourcesv1alpha1.ObjectReference, origin, fieldManager string) error {
	at, found, err := k.place(ctx, ref)
	// a cluster-scoped kind: the object belongs to another entry
	if err != nil || !found || at.namespace != ref.Namespace {
		return err
	}
	for range attempts {
		var live *metav1.PartialObjectMetadata
		live, err = at.objects.Get(ctx, ref.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) || err == nil && live.Annotations[resourcesv1alpha1.OriginAnnotation] != origin {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading %s: %w", inventory.Describe(ref), err)
		}
		// The version as well: another owner may have taken it over, and then the origin is not ours.
		patch := fmt.Appendf(nil, `{"metadata":{"uid":%q,"resourceVersion":%q,"annotations":{%q:null,%q:null}}}`, live.UID,
			live.ResourceVersion,
			resourcesv1alpha1.OriginAnnotation, resourcesv1alpha1.DescriptionAnnotation)
		_, err = at.objects.Patch(ctx, ref.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager})
		if err == nil || apierrors.IsNotFound(err) {
			return nil
		}
		if !apierrors.IsConflict(err) {
			break
		}
	}
	return fmt.Errorf("releasing %s: %w", inventory.Describe(ref), err)
}
