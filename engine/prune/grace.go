package prune

import (
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/engine/inventory"
)

// linger handles an object that is terminating: it is pending, and once the grace period of its annotation is over, its
// finalizers are removed.
func (r *run) linger(ctx context.Context, out *Outcome, at place, live *metav1.PartialObjectMetadata) error {
	out.Result, out.Reason, out.lingers = Pending, pendingReason(live), true
	grace, err := graceOf(live)
	if err != nil {
		return err
	}
	if grace == 0 || live.DeletionTimestamp == nil {
		return nil
	}
	isNamespace := inventory.IsNamespace(out.Key.GroupKind())
	if len(live.Finalizers) == 0 && !isNamespace {
		return nil
	}
	if due := live.DeletionTimestamp.Add(grace); r.policy.Clock.Now().Before(due) {
		out.Due = due
		return nil
	}
	if isNamespace {
		out.Finalized, err = r.finalizeNamespace(ctx, live)
	} else {
		out.Finalized, err = live.Finalizers, r.finalize(ctx, at, live)
	}
	if err != nil && !apierrors.IsNotFound(err) {
		out.Finalized = nil
		return fmt.Errorf("taking off the finalizers: %w", err)
	}
	left, err := at.objects.Get(ctx, live.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err), err == nil && left.UID != live.UID:
		out.Result, out.Reason = Gone, ""
	case err == nil:
		out.Reason = pendingReason(left)
	}
	return nil
}

// graceOf returns how long after its deletion an object keeps its finalizers; zero means forever.
func graceOf(live *metav1.PartialObjectMetadata) (time.Duration, error) {
	const annotation = resourcesv1alpha1.FinalizeDeletionAfterAnnotation
	value, ok := live.Annotations[annotation]
	if !ok {
		return 0, nil
	}
	grace, err := time.ParseDuration(value)
	if err != nil {
		return 0, fmt.Errorf("its annotation %s is no duration: %q", annotation, value)
	}
	if grace < 0 {
		return 0, fmt.Errorf("its annotation %s must not be negative: %q", annotation, value)
	}
	return grace, nil
}

// finalize removes the finalizers of an object, unless it changed since it was read.
func (r *run) finalize(ctx context.Context, at place, live *metav1.PartialObjectMetadata) error {
	patch := fmt.Appendf(nil, `{"metadata":{"uid":%q,"resourceVersion":%q,"finalizers":null}}`, live.UID,
		live.ResourceVersion)
	_, err := at.objects.Patch(ctx, live.Name, types.MergePatchType, patch,
		metav1.PatchOptions{FieldManager: r.policy.FieldManager})
	return err
}

// finalizeNamespace removes both kinds of finalizers of a namespace; those in its spec can only be changed by the
// subresource finalize. Objects left in the namespace are ignored.
func (r *run) finalizeNamespace(ctx context.Context, seen *metav1.PartialObjectMetadata) ([]string, error) {
	live := &unstructured.Unstructured{}
	live.SetAPIVersion("v1")
	live.SetKind("Namespace")
	if err := r.Client.Get(ctx, client.ObjectKey{Name: seen.Name}, live); err != nil {
		return nil, err
	}
	if live.GetUID() != seen.UID || live.GetDeletionTimestamp() == nil {
		return nil, nil
	}
	specific, _, _ := unstructured.NestedStringSlice(live.Object, "spec", "finalizers")
	finalizers := slices.Concat(live.GetFinalizers(), specific)
	live.SetFinalizers(nil)
	unstructured.RemoveNestedField(live.Object, "spec", "finalizers")
	return finalizers, r.Client.SubResource("finalize").Update(ctx, live, client.FieldOwner(r.policy.FieldManager))
}

func pendingReason(live *metav1.PartialObjectMetadata) string {
	if len(live.Finalizers) == 0 {
		return "is shutting down"
	}
	return fmt.Sprintf("waits for finalizers %v", slices.Sorted(slices.Values(live.Finalizers)))
}
