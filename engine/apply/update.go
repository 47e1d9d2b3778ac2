package apply

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/trellis-hub/trellis/engine/merge"
	"github.com/trellis-hub/trellis/engine/ownership"
)

var semantic = equality.Semantic

// refusesApply reports whether an object cannot be applied, but perhaps updated: the server does not support apply for
// this kind, or the manifest cannot be expressed as an apply, such as two list items with the same key.
func refusesApply(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	switch status.Status().Code {
	case http.StatusUnsupportedMediaType, http.StatusMethodNotAllowed, http.StatusNotAcceptable:
		return true
	case http.StatusInternalServerError, http.StatusBadRequest, http.StatusUnprocessableEntity:
		return strings.Contains(err.Error(), "failed to create typed patch object") ||
			strings.Contains(err.Error(), "duplicate entries for key")
	}
	return false
}

// duplicateKey matches one path with several list items of the same key in a server's message.
var duplicateKey = regexp.MustCompile(`(?m)(\.[^\s].*?: duplicate entries for key .*?)$`)

func duplicates(err error) (places []string) {
	for _, m := range duplicateKey.FindAllStringSubmatch(err.Error(), -1) {
		places = append(places, strings.TrimSpace(m[1]))
	}
	return places
}

// update reads, merges and replaces the object, for objects that cannot be applied. The payload of other owners is
// removed.
func (o *object) update(live *unstructured.Unstructured) (done bool, err error) {
	if live == nil {
		if live, err = o.read(); err != nil {
			return false, err
		}
	}
	if live == nil {
		created := o.manifest.DeepCopy()
		err := o.target.Client.Create(o.ctx, created, client.FieldOwner(o.FieldManager))
		if apierrors.IsAlreadyExists(err) {
			return false, nil
		}
		if err != nil {
			return false, o.redact(err)
		}
		o.accept(created, ownership.Observe(created, o.FieldManager))
		return true, nil
	}
	merged, err := o.merged(live)
	if err != nil {
		return false, err
	}
	written, err := o.put(live, merged)
	switch {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return false, nil // read it again
	case apierrors.IsInvalid(err):
		return o.replace(live, o.redact(err))
	case err != nil:
		return false, o.redact(err)
	}
	o.accept(written, ownership.Observe(written, o.FieldManager))
	return true, nil
}

// merged returns the whole object that an update writes.
func (o *object) merged(live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	options := o.options
	options.ControlPlane = byControlPlane(ownership.Read(live, o.FieldManager))
	return merge.Object(o.manifest, live, options)
}

// put writes the merged object if it differs from the live one, and returns the resulting object.
func (o *object) put(live, merged *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	if sameContent(merged, live) {
		return live, nil
	}
	foreign, err := ownership.Read(live, o.FieldManager).Foreign(o.exempt)
	if err != nil {
		foreign = nil // it is only for the report
	}
	if err := o.target.Client.Update(o.ctx, merged, client.FieldOwner(o.FieldManager)); err != nil {
		return nil, err
	}
	if merged.GetResourceVersion() != live.GetResourceVersion() {
		o.out.TakenBack = append(o.out.TakenBack, foreign...)
		o.wrote = true
	}
	return merged, nil
}

// notUpdated is the generation of an object that could not be updated.
const notUpdated = -1

// updateWhole updates an object in addition to its apply, which keeps fields without an owner: defaults that the server
// set for an earlier manifest, and fields whose owner is gone. An object that is known to exist is updated first, so
// that its content changes once, and then the apply makes us the owner. The update is skipped if the apply alone gives
// the same, as for most ConfigMaps and Secrets. If the read or the update is refused, only the apply is done: it keeps
// immutable fields, such as those that admission set on a Pod or a claim at creation. done is false without an error if
// the object changed or was deleted meanwhile.
func (o *object) updateWhole() (done bool, err error) {
	uid := o.uid
	live, err := o.read()
	if apierrors.IsForbidden(err) { // an identity that may write only
		o.whole, o.generation = true, notUpdated
		return true, nil
	}
	if err != nil {
		return false, err
	}
	if live == nil || live.GetUID() != uid {
		return false, nil
	}
	merged, err := o.merged(live)
	if err != nil {
		return false, err
	}
	if o.applyIsEnough(live, merged) {
		o.in.Same = true
		return true, nil
	}
	written, err := o.put(live, merged)
	switch {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return false, nil
	case apierrors.IsInvalid(err), apierrors.IsForbidden(err), apierrors.IsBadRequest(err):
		o.generation = notUpdated
	case err != nil:
		return false, fmt.Errorf("updating the object: %w", o.redact(err))
	default:
		o.updated, o.generation = written.GetResourceVersion() != live.GetResourceVersion(), written.GetGeneration()
	}
	o.whole = true
	return true, nil
}

// applyIsEnough reports whether the following apply gives the same object as an update with the merged one. It does not
// for nulls, and for empty maps and lists whose siblings are removed.
func (o *object) applyIsEnough(live, merged *unstructured.Unstructured) bool {
	if o.in.Same || len(o.out.TakenBack) > 0 || hasNulls(o.manifest.Object) || hasEmpty(o.manifest.Object) {
		return false
	}
	all, alone := ownership.Read(live, o.FieldManager).Applied(o.manifest.GetAPIVersion())
	return all != nil && leavesNothing(live.Object, merged.Object, all, alone)
}

// leavesNothing reports whether an apply gives the same object as an update with the merged one: every field that is
// not in the merged one is owned by us alone, so that the apply removes it, and lists are owned as a whole or equal.
// Lists whose items have owners of their own are not compared by item, since only the server knows their keys.
func leavesNothing(live, merged map[string]any, owned, alone *fieldpath.Set) bool {
	for name, value := range live {
		element := field(name)
		want, stays := merged[name]
		below, isParent := owned.Children.Get(element)
		valueMap, isMap := value.(map[string]any)
		wantMap, wantsMap := want.(map[string]any)
		switch {
		case isMap && wantsMap:
			belowAlone, found := alone.Children.Get(element)
			if !isParent {
				below = fieldpath.NewSet()
			}
			if !found {
				belowAlone = fieldpath.NewSet()
			}
			if !leavesNothing(valueMap, wantMap, below, belowAlone) {
				return false
			}
		case !stays:
			if isMap || isParent || !alone.Members.Has(element) {
				return false
			}
		case !isMap && !isParent && owned.Members.Has(element):
		case !semantic.DeepEqual(value, want):
			return false
		}
	}
	return true
}

// mayPassAsUpdate reports whether an update may be accepted although the apply was refused: the server merges an apply
// into the live object, and may refuse the result or its managed fields.
func mayPassAsUpdate(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsInternalError(err) ||
		apierrors.IsAlreadyExists(err)
}

// overcome handles an object whose apply is refused. A manifest with nulls is created or updated, since an apply cannot
// express them. Otherwise immutable fields get their live value; then the object is updated as a whole, which sets the
// content of the manifest, and applied once more to own it. If that apply is refused as well, its managed fields are
// reset; if that does not help either, the updated object stays as it is. An object that cannot be updated may be
// replaced by a new one. done and err have the meaning of attempt.
func (o *object) overcome(live *unstructured.Unstructured, refusal error) (done bool, err error) {
	if hasNulls(o.manifest.Object) && !apierrors.IsInternalError(refusal) {
		return o.update(live)
	}
	if live == nil {
		if o.readLive || merge.NeedsLive(o.manifest, o.options, o.uid != "") {
			return false, refusal // it does not exist, so this is not an update
		}
		if live, err = o.read(); err != nil {
			return false, err
		}
		if live == nil {
			return false, refusal
		}
		o.readLive = true
		changed, err := o.keepsMore(live)
		if err != nil || changed {
			return false, err
		}
	}
	merged, err := o.merged(live)
	if err != nil {
		return false, err
	}
	if o.refused > 0 && isAboutManagedFields(refusal) { // reset the managed fields
		merged.SetManagedFields([]metav1.ManagedFieldsEntry{{}}) // an empty list would keep them
	}
	written, err := o.put(live, merged)
	switch {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return false, nil // read it again
	case apierrors.IsInvalid(err) && apierrors.IsInvalid(refusal):
		return o.replace(live, refusal)
	case err != nil:
		return false, refusal
	}
	o.refused++
	if o.refused == 1 || o.refused == 2 && isAboutManagedFields(refusal) {
		return false, nil
	}
	if apierrors.IsInternalError(refusal) {
		return false, refusal
	}
	o.accept(written, ownership.Observe(written, o.FieldManager))
	return true, nil
}

// isAboutManagedFields reports whether an apply may have been refused because of the managed fields, and not by a
// webhook.
func isAboutManagedFields(refusal error) bool {
	return !apierrors.IsInvalid(refusal) && !strings.Contains(refusal.Error(), "webhook")
}

// keepsMore reports whether the merge rules for live values change what is sent.
func (o *object) keepsMore(live *unstructured.Unstructured) (bool, error) {
	adapted, err := o.body(live)
	if err != nil {
		return false, err
	}
	plain, err := o.body(nil)
	if err != nil {
		return false, err
	}
	adapted.SetResourceVersion("")
	return !sameContent(adapted, plain), nil
}

// hasNulls reports whether a node is or contains null.
func hasNulls(node any) bool {
	switch node := node.(type) {
	case nil:
		return true
	case map[string]any:
		for _, value := range node {
			if hasNulls(value) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(node, hasNulls)
	}
	return false
}
