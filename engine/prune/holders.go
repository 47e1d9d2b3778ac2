package prune

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/engine/inventory"
)

// within returns a function that reports whether an object is deleted together with the one of a key; nil if none is.
// The function is safe for concurrent use.
func (r *run) within(ctx context.Context, key inventory.Key) func(inventory.Key) bool {
	switch gk := key.GroupKind(); {
	case inventory.IsNamespace(gk):
		return func(k inventory.Key) bool { return k.Namespace == key.Name }
	case inventory.IsCustomResourceDefinition(gk):
		return func(k inventory.Key) bool { return r.kinds.defines(ctx, key, k) }
	}
	return nil
}

// holder names an object or owner that has to stay and would be deleted with a namespace or a definition; empty if
// there is none.
func (r *run) holder(ctx context.Context, key inventory.Key) (string, error) {
	in := r.within(ctx, key)
	if in == nil {
		return "", nil
	}
	const remedy = "and would go with it. Delete that object, or keep this one, too, with the annotation " +
		resourcesv1alpha1.KeepObjectAnnotation + "=true"
	for _, i := range r.staying {
		if kept := &r.outcomes[i]; in(kept.Key) {
			return fmt.Sprintf("%s, which is kept because %s, %s", kept.Key, kept.Reason, remedy), nil
		}
	}
	for _, ref := range r.policy.Released {
		if !in(inventory.KeyOf(ref)) {
			continue
		}
		if there, err := r.kinds.exists(ctx, ref); err != nil {
			return "", err
		} else if there {
			return fmt.Sprintf("%s, which stays because the annotation %s=%s of its manifest asks for it, %s",
				inventory.KeyOf(ref),
				resourcesv1alpha1.ModeAnnotation, resourcesv1alpha1.ModeIgnore, remedy), nil
		}
	}
	if inventory.IsNamespace(key.GroupKind()) {
		if r.policy.HolderIn == nil {
			return "", nil
		}
		if who := r.policy.HolderIn(key.Name); who != "" {
			return who + ", which lists objects in it", nil
		}
		return "", nil
	}
	if r.policy.HolderOf == nil {
		return "", nil
	}
	kind, err := r.kinds.definedBy(ctx, key.Name)
	if err != nil {
		return "", err
	}
	if who := r.policy.HolderOf(kind); who != "" {
		return fmt.Sprintf("%s, which lists objects of kind %s", who, kind), nil
	}
	return "", nil
}

// retain makes kept objects pending whose namespace or definition is not deleted yet, so that the next run still has
// their entries.
func (r *run) retain(ctx context.Context) {
	for j := range r.outcomes {
		held := &r.outcomes[j]
		in := r.within(ctx, held.Key)
		if in == nil || held.Result != Pending || held.lingers {
			continue
		}
		for _, i := range r.staying {
			if kept := &r.outcomes[i]; kept.Result == Kept && in(kept.Key) {
				kept.Result, kept.Reason = Pending, fmt.Sprintf("it is kept because %s, and listed until %s is deleted or kept",
					kept.Reason, held.Key)
			}
		}
	}
}

// listed reports whether another entry of the ManagedResource names an object.
func (r *run) listed(key inventory.Key) bool {
	for i := range r.outcomes {
		if r.outcomes[i].Key == key { // other fields may be written concurrently
			return true
		}
	}
	return r.policy.Wanted != nil && r.policy.Wanted(key) ||
		slices.ContainsFunc(r.policy.Released, func(
			ref resourcesv1alpha1.ObjectReference) bool {
			return inventory.KeyOf(ref) == key
		})
}

// exists reports whether an object exists.
func (k *kinds) exists(ctx context.Context, ref resourcesv1alpha1.ObjectReference) (bool, error) {
	at, found, err := k.place(ctx, ref)
	if err != nil || !found {
		return false, err
	}
	_, err = at.objects.Get(ctx, ref.Name, metav1.GetOptions{})
	if isUnserved(err) {
		return false, k.unserved(ctx, at.mapping.GroupVersionKind)
	}
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading %s: %w", inventory.Describe(ref), err)
	}
	return true, nil
}
