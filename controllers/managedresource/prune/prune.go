package prune

import (
	"context"
	"fmt"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	"k8s.io/utils/ptr"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/controllers/managedresource/inventory"
)

// Target is the access to the cluster from which objects are deleted.
type Target struct {
	Metadata metadata.Interface
	Mapper   meta.RESTMapper
}

// Policy says what of an inventory may be deleted.
type Policy struct {
	// Origin is the origin annotation of the ManagedResource.
	Origin string
	// FieldManager is the hub's. An object that the manifest asks to ignore has no origin; who created it tells then.
	FieldManager string
	// ListedByOther tells whether another ManagedResource lists the object in the same target. Nil means no.
	ListedByOther func(inventory.Key) bool
	// KeepGarbageCollectable leaves ConfigMaps and Secrets that carry the garbage collector's label to it.
	KeepGarbageCollectable bool
	// Parallel bounds the deletions at the same time; at least 1.
	Parallel int
}

// Result says what became of one entry.
type Result string

// Results. Kept and Gone take an entry out of the inventory; Pending keeps it.
const (
	Gone    Result = "Gone"
	Kept    Result = "Kept"
	Pending Result = "Pending"
)

// Outcome is the result for one inventory entry.
type Outcome struct {
	Ref    resourcesv1alpha1.ObjectReference
	Key    inventory.Key
	Result Result
	// Deleted is true if this call sent the delete.
	Deleted bool
	// Reason says why an object was kept or what it waits for.
	Reason string
	// Err is what failed; the result is Pending then.
	Err error
}

// Objects deletes what the policy allows of the entries, and returns an outcome for each, sorted like the inventory.
func Objects(ctx context.Context, t Target, refs []resourcesv1alpha1.ObjectReference, policy Policy) []Outcome {
	outcomes := make([]Outcome, len(refs))
	groups := make([][]int, deletionGroups)
	for i := range refs {
		outcomes[i] = Outcome{Ref: refs[i], Key: inventory.KeyOf(refs[i])}
		g := deletionGroup(outcomes[i].Key.GroupKind())
		groups[g] = append(groups[g], i)
	}
	blocked := ""
	for _, group := range groups {
		if blocked != "" {
			for _, i := range group {
				outcomes[i].Result, outcomes[i].Reason = Pending, "waits for "+blocked
			}
			continue
		}
		var wg sync.WaitGroup
		slots := make(chan struct{}, max(policy.Parallel, 1))
		for _, i := range group {
			slots <- struct{}{}
			wg.Go(func() {
				defer func() { <-slots }()
				one(ctx, t, &outcomes[i], policy)
			})
		}
		wg.Wait()
		for _, i := range group {
			if outcomes[i].Result == Pending && blocked == "" {
				blocked = outcomes[i].Key.String()
			}
		}
	}
	slices.SortStableFunc(outcomes, func(a, b Outcome) int { return a.Key.Compare(b.Key) })
	return outcomes
}

// deletionGroups is the number of groups that wait for each other.
const deletionGroups = 4

func deletionGroup(gk schema.GroupKind) int {
	switch inventory.StageOf(gk) {
	case inventory.StageGate:
		return 0
	case inventory.StageCustom:
		return 1
	case inventory.StageFoundation:
		return 3
	default:
		return 2
	}
}

// attempts bounds how often an object is looked at anew because it changed before it could be deleted.
const attempts = 4

func one(ctx context.Context, t Target, out *Outcome, policy Policy) {
	for range attempts {
		if err := try(ctx, t, out, policy); !apierrors.IsConflict(err) {
			return
		}
	}
}

// try deletes an object as it is now. A conflict means that it changed since it was looked at.
func try(ctx context.Context, t Target, out *Outcome, policy Policy) error {
	key := out.Key
	fail := func(err error) error {
		out.Result, out.Err = Pending, err
		return err
	}
	out.Err = nil
	if policy.ListedByOther != nil && policy.ListedByOther(key) {
		// It is that one's now. Our origin on it would keep that one from deleting it.
		if err := Release(ctx, t, out.Ref, policy.Origin, policy.FieldManager); err != nil {
			return fail(err)
		}
		out.Result, out.Reason = Kept, "another ManagedResource lists it"
		return nil
	}
	resource, found, err := resourceOf(t, out.Ref)
	if err != nil {
		return fail(err)
	}
	if !found {
		out.Result = Gone // its kind is gone, and the kind's objects with it
		return nil
	}
	live, err := resource.Get(ctx, key.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		out.Result = Gone
		return nil
	}
	if err != nil {
		return fail(fmt.Errorf("reading the live object: %w", err))
	}
	if reason := keepReason(live, out.Ref, policy); reason != "" {
		out.Result, out.Reason = Kept, reason
		return nil
	}
	if live.DeletionTimestamp != nil {
		out.Result, out.Reason = Pending, pendingReason(live)
		return nil
	}
	err = resource.Delete(ctx, key.Name, metav1.DeleteOptions{
		// The version as well: between the look and the delete, somebody may have taken it over.
		Preconditions:     &metav1.Preconditions{UID: ptr.To(live.UID), ResourceVersion: ptr.To(live.ResourceVersion)},
		PropagationPolicy: propagation(key.Group),
	})
	switch {
	case apierrors.IsNotFound(err):
		out.Result = Gone
		return nil
	case err != nil:
		return fail(fmt.Errorf("deleting the object: %w", err))
	}
	out.Deleted = true
	// Most objects are gone at once. Asking now saves them the wait for the next pass.
	left, err := resource.Get(ctx, key.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err), err == nil && left.UID != live.UID:
		out.Result = Gone
	case err != nil:
		out.Result, out.Reason = Pending, "deleted, and not seen since"
	default:
		out.Result, out.Reason = Pending, pendingReason(left)
	}
	return nil
}

// keepReason says why a live object must stay, empty if it may be deleted.
func keepReason(live *metav1.PartialObjectMetadata, ref resourcesv1alpha1.ObjectReference, policy Policy) string {
	origin := live.Annotations[resourcesv1alpha1.OriginAnnotation]
	switch {
	case resourcesv1alpha1.IsTruthy(live.Annotations[resourcesv1alpha1.KeepObjectAnnotation]):
		return "its annotation " + resourcesv1alpha1.KeepObjectAnnotation + " asks for it"
	case origin != "" && origin != policy.Origin:
		return "its origin is " + origin
	case ref.UID != "" && live.UID != ref.UID && origin != policy.Origin && !createdToBeIgnored(live, ref, policy.FieldManager):
		return "it is not the object that was applied, and it has no origin"
	case ref.UID == "" && origin != policy.Origin && !createdToBeIgnored(live, ref, policy.FieldManager):
		return "nothing on it says that it was applied for this ManagedResource"
	case policy.KeepGarbageCollectable && garbageCollectable(live, ref):
		return "the garbage collector is in charge of it"
	}
	return ""
}

// createdToBeIgnored tells whether we created an object that bears no marks because its manifest asks to ignore it. It
// matters only if the hub died between creating it and noting its UID.
func createdToBeIgnored(live *metav1.PartialObjectMetadata, ref resourcesv1alpha1.ObjectReference, manager string) bool {
	return resourcesv1alpha1.IsTruthy(ref.Annotations[resourcesv1alpha1.IgnoreAnnotation]) &&
		slices.ContainsFunc(live.ManagedFields, func(e metav1.ManagedFieldsEntry) bool { return e.Manager == manager })
}

func garbageCollectable(live *metav1.PartialObjectMetadata, ref resourcesv1alpha1.ObjectReference) bool {
	return ref.APIVersion == "v1" && (ref.Kind == "ConfigMap" || ref.Kind == "Secret") &&
		resourcesv1alpha1.IsTruthy(live.Labels[resourcesv1alpha1.GarbageCollectableReferenceLabel])
}

// propagation is Foreground for workloads, so that their pods are gone when they are, and the server's default otherwise
// (spec/managedresource.md 2.12).
func propagation(group string) *metav1.DeletionPropagation {
	switch group {
	case "apps", "extensions", "batch":
		return ptr.To(metav1.DeletePropagationForeground)
	default:
		return nil
	}
}

func pendingReason(live *metav1.PartialObjectMetadata) string {
	if len(live.Finalizers) == 0 {
		return "is shutting down"
	}
	finalizers := slices.Clone(live.Finalizers)
	slices.Sort(finalizers)
	return fmt.Sprintf("waits for finalizers %v", finalizers)
}

// Release takes the marks of a ManagedResource off an object that it no longer manages (spec/managedresource.md 2.6). An
// object of somebody else is left alone.
func Release(ctx context.Context, t Target, ref resourcesv1alpha1.ObjectReference, origin, fieldManager string) error {
	resource, found, err := resourceOf(t, ref)
	if err != nil || !found {
		return err
	}
	live, err := resource.Get(ctx, ref.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && live.Annotations[resourcesv1alpha1.OriginAnnotation] != origin {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading %s: %w", inventory.Describe(ref), err)
	}
	patch := fmt.Appendf(nil, `{"metadata":{"uid":%q,"annotations":{%q:null,%q:null}}}`, live.UID,
		resourcesv1alpha1.OriginAnnotation, resourcesv1alpha1.DescriptionAnnotation)
	if _, err := resource.Patch(ctx, ref.Name, "application/merge-patch+json", patch, metav1.PatchOptions{FieldManager: fieldManager}); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("releasing %s: %w", inventory.Describe(ref), err)
	}
	return nil
}

// resourceOf resolves an entry's kind; found is false if the target cannot have the object.
func resourceOf(t Target, ref resourcesv1alpha1.ObjectReference) (resource metadata.ResourceInterface, found bool, err error) {
	gvk := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind)
	mapping, err := t.Mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if meta.IsNoMatchError(err) {
		// The version may be gone while the kind is not.
		mapping, err = t.Mapper.RESTMapping(gvk.GroupKind())
	}
	switch {
	case meta.IsNoMatchError(err):
		return nil, false, nil
	case err != nil:
		return nil, false, fmt.Errorf("looking up %s: %w", gvk, err)
	}
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		return t.Metadata.Resource(mapping.Resource).Namespace(ref.Namespace), true, nil
	}
	if ref.Namespace != "" {
		// An entry from before the kind was known. Nothing was ever applied under it: what has the name is another entry's.
		return nil, false, nil
	}
	return t.Metadata.Resource(mapping.Resource), true, nil
}
