package references

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
)

// Max is how many different Secrets a ManagedResource may refer to. A bundle of 1,000 Secrets holds far more objects
// than an inventory can hold.
const Max = 1000

// TooManyError says that a ManagedResource refers to more than Max Secrets. None of them is read then.
type TooManyError struct{}

func (TooManyError) Error() string {
	const message = "The ManagedResource refers to more than %d Secrets. Nothing was changed; split the ManagedResource."
	return fmt.Sprintf(message, Max)
}

// Of returns the Secrets that a ManagedResource refers to, in the order in which they are read. A Secret that is
// referred to several times is listed at its last position: of equal objects the one that is read last wins, so earlier
// positions have no effect. The error is a TooManyError.
func Of(mr *resourcesv1alpha1.ManagedResource) ([]types.NamespacedName, error) {
	refs := distinct(mr.Spec.SecretRefs)
	if len(refs) > Max {
		return nil, TooManyError{}
	}
	names := make([]types.NamespacedName, 0, len(refs))
	for _, ref := range refs {
		names = append(names, types.NamespacedName{Namespace: mr.Namespace, Name: ref.Name})
	}
	return names, nil
}

// Trim cuts the references of a ManagedResource to those that Of returns. Of too many it leaves one more than Max, so
// that Of still reports it.
func Trim(mr *resourcesv1alpha1.ManagedResource) {
	if refs := distinct(mr.Spec.SecretRefs); len(refs) < len(mr.Spec.SecretRefs) {
		kept := make([]corev1.LocalObjectReference, len(refs)) // without capacity for the rest
		copy(kept, refs)
		mr.Spec.SecretRefs = kept
	}
}

// few is the number of references up to which a scan is cheaper than a set.
const few = 8

// distinct returns references without those that are repeated later, at most one more than Max of them. It may return
// the list that it was given, which it does not change.
func distinct(refs []corev1.LocalObjectReference) []corev1.LocalObjectReference {
	if len(refs) <= few && !slices.ContainsFunc(refs, repeated(refs)) {
		return refs
	}
	seen := make(map[string]struct{}, min(len(refs), Max+1))
	var out []corev1.LocalObjectReference
	for _, ref := range slices.Backward(refs) {
		if _, again := seen[ref.Name]; again {
			continue
		}
		seen[ref.Name] = struct{}{}
		out = append(out, ref)
		if len(out) > Max {
			break
		}
	}
	if len(out) == len(refs) {
		return refs
	}
	slices.Reverse(out)
	return out
}

func repeated(refs []corev1.LocalObjectReference) func(corev1.LocalObjectReference) bool {
	at := 0
	return func(ref corev1.LocalObjectReference) bool {
		at++
		return slices.Contains(refs[at:], ref)
	}
}
