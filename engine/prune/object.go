package prune

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/engine/inventory"
)

// attempts bounds how often an object is read again because it changed before it could be deleted.
const attempts = 4

func (r *run) one(ctx context.Context, out *Outcome) {
	for range attempts {
		out.Reason, out.claimed = "", false
		if out.Err = r.try(ctx, out); out.Err == nil {
			return
		}
		out.Result = Pending
		if !apierrors.IsConflict(out.Err) {
			return
		}
	}
}

// try deletes an object in its current version. A conflict means that it changed after it was read.
func (r *run) try(ctx context.Context, out *Outcome) error {
	if r.Hold != nil {
		var done func()
		ctx, done = r.Hold(ctx)
		defer done()
	}
	end := func(result Result, reason string) error {
		out.Result, out.Reason = result, reason
		return nil
	}
	if r.undecided(out, out.Key) {
		return nil
	}
	if left, err := r.leave(ctx, out.Ref); err != nil {
		return err
	} else if left {
		return end(Kept, "another ManagedResource lists it")
	}
	at, found, err := r.kinds.place(ctx, out.Ref)
	if err != nil {
		return err
	}
	if !found {
		return end(Gone, "") // its kind is gone, and so are the objects of the kind
	}
	if at.namespace != out.Key.Namespace {
		// The entry is from before the kind was known, when it was taken for a namespaced one. We apply nothing under such an
		// entry; a Gardener resource manager does (BUG-14).
		ref := out.Ref
		ref.Namespace = at.namespace
		if r.listed(inventory.KeyOf(ref)) {
			return end(Gone, "") // the object of this name belongs to another entry
		}
		if r.undecided(out, inventory.KeyOf(ref)) {
			return nil
		}
		if left, err := r.leave(ctx, ref); err != nil {
			return err
		} else if left {
			return end(Kept, "another ManagedResource lists it")
		}
	}
	live, err := at.objects.Get(ctx, out.Key.Name, metav1.GetOptions{})
	if isUnserved(err) {
		if err := r.kinds.unserved(ctx, at.mapping.GroupVersionKind); err != nil {
			return err
		}
	}
	if err == nil && r.disclaims(live, out.Key) {
		live, err = at.objects.Get(ctx, out.Key.Name, metav1.GetOptions{})
	}
	if apierrors.IsNotFound(err) {
		return end(Gone, "")
	}
	if err != nil {
		return fmt.Errorf("reading the live object: %w", err)
	}
	if reason, claimed := keepReason(live, out.Ref, r.policy); reason != "" {
		out.claimed = claimed
		return end(Kept, reason)
	}
	if err := r.deleteClaims(ctx, out, at, live); err != nil {
		return err
	}
	if live.DeletionTimestamp != nil {
		return r.linger(ctx, out, at, live)
	}
	if undeletable[out.Key] {
		if err := r.relinquish(ctx, out, at, live); err != nil {
			return err
		}
		return end(Kept, "it belongs to every cluster, and no API server deletes it")
	}
	if who, err := r.holder(ctx, out.Key); err != nil {
		return err
	} else if who != "" {
		return end(Pending, "waits for "+who)
	}
	left, err := r.delete(ctx, at, live)
	switch {
	case apierrors.IsNotFound(err) && !isUnserved(err):
		return end(Gone, "")
	case err != nil:
		return fmt.Errorf("deleting the object: %w", err)
	}
	out.Deleted = true
	if left == nil {
		return end(Gone, "")
	}
	return r.linger(ctx, out, at, left)
}

// undecidedRetry is the pause before the next attempt for an object whose possible owners were not known.
const undecidedRetry = time.Second

// undecided makes an object pending until it is known which other ManagedResources may manage it, and reports whether
// it has to wait.
func (r *run) undecided(out *Outcome, key inventory.Key) bool {
	if r.policy.Undecided == nil || !r.policy.Undecided(key) {
		return false
	}
	out.Result, out.Reason = Pending, "waits until it is known which other namespaces reach this cluster"
	out.Due = r.policy.Clock.Now().Add(undecidedRetry)
	return true
}

// leave leaves an object to another ManagedResource that lists it, and reports whether there is one.
func (r *run) leave(ctx context.Context, ref resourcesv1alpha1.ObjectReference) (bool, error) {
	key := inventory.KeyOf(ref)
	if r.policy.ListedByOther == nil || !r.policy.ListedByOther(key) {
		return false, nil
	}
	// The other ManagedResource owns it now. With our origin annotation it could not delete the object.
	if err := r.kinds.release(ctx, ref, r.policy.Origin, r.policy.FieldManager); err != nil {
		return false, err
	}
	// This is after the release: if the other one gives it up as well, no origin annotation keeps it from deleting.
	return r.policy.GiveUp == nil || r.policy.GiveUp(key), nil
}

// disclaims gives up an object that has the origin annotation of another ManagedResource, and reports whether it has.
// The other one may be leaving it to us at the same time: it removes its origin first, and then checks whether we still
// claim the object. We disclaim the object first, and the caller then reads it again. So one of the two deletes it.
func (r *run) disclaims(live *metav1.PartialObjectMetadata, key inventory.Key) bool {
	origin := live.Annotations[resourcesv1alpha1.OriginAnnotation]
	if origin == "" || origin == r.policy.Origin || r.policy.Disclaim == nil {
		return false
	}
	r.policy.Disclaim(key)
	return true
}

// errUnclear means that an object was deleted and its state after that is not known.
var errUnclear = errors.New("deleted, and not seen since")

// send sends the delete of an object that was read. dryRun is that of DeleteOptions.
func (r *run) send(ctx context.Context, at place, seen *metav1.PartialObjectMetadata, dryRun ...string) (
	code int, answer []byte, err error) {
	options, err := json.Marshal(metav1.DeleteOptions{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "DeleteOptions"},
		// The version as well: another owner may have taken it over since it was read.
		Preconditions:     &metav1.Preconditions{UID: ptr.To(seen.UID), ResourceVersion: ptr.To(seen.ResourceVersion)},
		PropagationPolicy: propagation(at.mapping.Resource.Group),
		DryRun:            dryRun,
	})
	if err != nil {
		return 0, nil, fmt.Errorf("encoding the options: %w", err)
	}
	result := r.Deletes.Delete().AbsPath(at.path(seen.Name)...).
		SetHeader("Content-Type", "application/json").
		SetHeader("Accept", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json").
		Body(options).Do(ctx).StatusCode(&code)
	if err := result.Error(); err != nil { // with the message of the server, which Raw does not decode
		return code, nil, err
	}
	answer, err = result.Raw()
	return code, answer, err
}

// dryRun returns an error if a dry run of the delete fails.
func (r *run) dryRun(ctx context.Context, at place, seen *metav1.PartialObjectMetadata) error {
	_, _, err := r.send(ctx, at, seen, metav1.DryRunAll)
	if err == nil || apierrors.IsNotFound(err) || apierrors.IsBadRequest(err) { // a webhook may not support it
		return nil
	}
	return fmt.Errorf("dry run of the deletion: %w", err)
}

// delete deletes the object that was read, and returns the terminating object, nil if it is gone.
func (r *run) delete(ctx context.Context, at place, seen *metav1.PartialObjectMetadata) (
	*metav1.PartialObjectMetadata, error) {
	code, answer, err := r.send(ctx, at, seen)
	if err != nil {
		return nil, err
	}
	left := &metav1.PartialObjectMetadata{}
	if err := json.Unmarshal(answer, left); err == nil && code == http.StatusOK {
		switch {
		case left.APIVersion == "v1" && left.Kind == "Status":
			return nil, nil // it is gone, like most objects
		case left.UID == seen.UID && left.DeletionTimestamp != nil && len(left.Finalizers) > 0:
			return left, nil
		}
	}
	// Some kinds return the object as it was, or nothing about whether it is gone.
	left, err = at.objects.Get(ctx, seen.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err), err == nil && left.UID != seen.UID:
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("%w: %w", errUnclear, err)
	}
	return left, nil
}

// path is the URL path of an object.
func (p place) path(name string) []string {
	resource := p.mapping.Resource
	segments := []string{"apis", resource.Group, resource.Version}
	if resource.Group == "" {
		segments = []string{"api", resource.Version}
	}
	if p.namespace != "" {
		segments = append(segments, "namespaces", p.namespace)
	}
	return append(segments, resource.Resource, name)
}

// keepReason returns why a live object must stay, empty if it may be deleted. claimed means that it must not be deleted
// with its namespace or definition either.
func keepReason(live *metav1.PartialObjectMetadata, ref resourcesv1alpha1.ObjectReference, policy Policy) (
	reason string, claimed bool) {
	origin := live.Annotations[resourcesv1alpha1.OriginAnnotation]
	switch {
	case resourcesv1alpha1.IsTruthy(live.Annotations[resourcesv1alpha1.KeepObjectAnnotation]):
		return "its annotation " + resourcesv1alpha1.KeepObjectAnnotation + " asks for it", true
	case origin != "" && origin != policy.Origin:
		return "its origin is " + origin, true
	case ref.UID != "" && live.UID != ref.UID && origin != policy.Origin &&
		!createdToBeIgnored(live, ref, policy.FieldManager):
		return "it is not the object that was applied, and it has no origin", false
	case ref.UID == "" && origin != policy.Origin && !createdToBeIgnored(live, ref, policy.FieldManager):
		return "nothing on it says that it was applied for this ManagedResource", false
	case policy.KeepGarbageCollectable && garbageCollectable(live, ref):
		return "the garbage collector is in charge of it", false
	}
	return "", false
}

// createdToBeIgnored reports whether we created an object that has no marks because its manifest has the ignore
// annotation. It matters only if the hub stopped between creating it and recording its UID. Such an object was created
// by an update, and the entry of that in its managedFields is as old as the object. Fields of our field manager alone
// do not prove that it is ours: another hub has the same field manager, and an object that another ManagedResource
// released still has the fields that were applied.
func createdToBeIgnored(live *metav1.PartialObjectMetadata, ref resourcesv1alpha1.ObjectReference,
	manager string) bool {
	return resourcesv1alpha1.IsTruthy(ref.Annotations[resourcesv1alpha1.IgnoreAnnotation]) &&
		slices.ContainsFunc(live.ManagedFields, func(e metav1.ManagedFieldsEntry) bool {
			return e.Manager == manager && e.Operation == metav1.ManagedFieldsOperationUpdate && e.Subresource == "" &&
				e.Time != nil && !e.Time.After(live.CreationTimestamp.Time)
		})
}

func garbageCollectable(live *metav1.PartialObjectMetadata, ref resourcesv1alpha1.ObjectReference) bool {
	return ref.APIVersion == "v1" && (ref.Kind == "ConfigMap" || ref.Kind == "Secret") &&
		resourcesv1alpha1.IsTruthy(live.Labels[resourcesv1alpha1.GarbageCollectableReferenceLabel])
}

// propagation is Foreground for workloads, so that their pods are gone before they are, and the server's default
// otherwise.
func propagation(group string) *metav1.DeletionPropagation {
	switch group {
	case "apps", "extensions", "batch":
		return ptr.To(metav1.DeletePropagationForeground)
	default:
		return nil
	}
}
