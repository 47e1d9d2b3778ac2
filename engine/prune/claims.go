package prune

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	resourcesv1alpha1 "github.com/trellis-hub/trellis/apis/resources/v1alpha1"
	"github.com/trellis-hub/trellis/engine/inventory"
)

var claims = schema.GroupVersionResource{Version: "v1", Resource: "persistentvolumeclaims"}

// maxFailures bounds how many failures one error names.
const maxFailures = 20

// deleteClaims deletes the claims of a StatefulSet if the policy says so: those that its selector selects and whose
// names are those of claims of its templates. Selector or name alone may match claims that others created.
func (r *run) deleteClaims(ctx context.Context, out *Outcome, at place, live *metav1.PartialObjectMetadata) error {
	group, kind := at.mapping.GroupVersionKind.Group, at.mapping.GroupVersionKind.Kind
	if !r.policy.DeletePersistentVolumeClaims || kind != "StatefulSet" || group != "apps" && group != "extensions" {
		return nil
	}
	prefixes, selector, err := r.claimsOf(ctx, at, live)
	if err != nil {
		return fmt.Errorf("finding its PersistentVolumeClaims: %w", err)
	}
	if len(prefixes) == 0 || selector.Empty() {
		return nil
	}
	if live.DeletionTimestamp == nil {
		// Deleted claims cannot be restored. The dry run fails if the StatefulSet has changed, since it may have to stay now.
		if err := r.dryRun(ctx, at, live); err != nil {
			return err
		}
	}
	var failed []error
	list := r.Metadata.Resource(claims).Namespace(live.Namespace)
	options := metav1.ListOptions{LabelSelector: selector.String(), Limit: 500}
	for {
		found, err := list.List(ctx, options)
		if err != nil {
			return fmt.Errorf("listing its PersistentVolumeClaims: %w", err)
		}
		for i := range found.Items {
			claim := &found.Items[i]
			if claim.DeletionTimestamp != nil || !named(claim.Name, prefixes) || r.foreign(claim) {
				continue
			}
			err := list.Delete(ctx, claim.Name,
				metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: ptr.To(claim.UID)}})
			if err == nil {
				out.Claims++
			} else if !apierrors.IsNotFound(err) && len(failed) < maxFailures {
				failed = append(failed, fmt.Errorf("deleting its PersistentVolumeClaim %s: %w", claim.Name, err))
			}
		}
		if options.Continue = found.Continue; options.Continue == "" {
			return errors.Join(failed...)
		}
	}
}

// claimsOf returns the prefixes of the names of a StatefulSet's claims, without the number of the pod, and its
// selector.
func (r *run) claimsOf(ctx context.Context, at place, seen *metav1.PartialObjectMetadata) (
	prefixes []string, selector labels.Selector, err error) {
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(at.mapping.GroupVersionKind)
	if err := r.Client.Get(ctx, client.ObjectKeyFromObject(seen), live); err != nil {
		return nil, nil, client.IgnoreNotFound(err)
	}
	if live.GetUID() != seen.UID {
		return nil, nil, nil // the delete will fail
	}
	templates, _, err := unstructured.NestedSlice(live.Object, "spec", "volumeClaimTemplates")
	if err != nil {
		return nil, nil, err
	}
	for _, t := range templates {
		template, _ := t.(map[string]any)
		if name, _, _ := unstructured.NestedString(template, "metadata", "name"); name != "" {
			prefixes = append(prefixes, name+"-"+seen.Name+"-")
		}
	}
	content, _, err := unstructured.NestedMap(live.Object, "spec", "selector")
	if err != nil {
		return nil, nil, err
	}
	typed := &metav1.LabelSelector{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, typed); err != nil {
		return nil, nil, err
	}
	selector, err = metav1.LabelSelectorAsSelector(typed)
	return prefixes, selector, err
}

// named reports whether a name is one of the prefixes and a number.
func named(name string, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(prefix string) bool {
		rest, ok := strings.CutPrefix(name, prefix)
		n, err := strconv.ParseUint(rest, 10, 31)
		return ok && err == nil && strconv.FormatUint(n, 10) == rest
	})
}

// foreign reports whether a claim has to stay although its StatefulSet is deleted.
func (r *run) foreign(claim *metav1.PartialObjectMetadata) bool {
	origin := claim.Annotations[resourcesv1alpha1.OriginAnnotation]
	return resourcesv1alpha1.IsTruthy(claim.Annotations[resourcesv1alpha1.KeepObjectAnnotation]) ||
		origin != "" && origin != r.policy.Origin ||
		r.policy.ListedByOther != nil && r.policy.ListedByOther(
			inventory.Key{Kind: "PersistentVolumeClaim", Namespace: claim.Namespace, Name: claim.Name})
}
