package apply

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/trellis-hub/trellis/controllers/managedresource/merge"
	"github.com/trellis-hub/trellis/controllers/managedresource/ownership"
)

var semantic = equality.Semantic

// refusesApply tells whether an object cannot be applied, but perhaps updated: the server does not know apply for this kind,
// or the manifest is something that apply cannot express, such as two list items with the same key.
func refusesApply(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	switch status.Status().Code {
	case http.StatusUnsupportedMediaType, http.StatusMethodNotAllowed, http.StatusNotAcceptable:
		return true
	case http.StatusInternalServerError, http.StatusBadRequest, http.StatusUnprocessableEntity:
		return strings.Contains(err.Error(), "failed to create typed patch object") || strings.Contains(err.Error(), "duplicate entries for key")
	}
	return false
}

// duplicateKey matches one place with several list items of the same key in the answer of a server.
var duplicateKey = regexp.MustCompile(`(?m)(\.[^\s].*?: duplicate entries for key .*?)$`)

func duplicates(err error) (places []string) {
	for _, m := range duplicateKey.FindAllStringSubmatch(err.Error(), -1) {
		places = append(places, strings.TrimSpace(m[1]))
	}
	return places
}

// update writes the object by reading, merging and replacing it, for what cannot be applied. Others' payload goes with it.
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
			return false, o.discreet(err)
		}
		o.accept(created, ownership.Observe(created, o.FieldManager))
		return true, nil
	}
	written, err := o.put(live, false)
	switch {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return false, nil // look again
	case apierrors.IsInvalid(err):
		return o.replace(live, o.discreet(err))
	case err != nil:
		return false, o.discreet(err)
	}
	o.accept(written, ownership.Observe(written, o.FieldManager))
	return true, nil
}

// merged is the whole object that an update writes.
func (o *object) merged(live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	options := o.options
	options.ControlPlane = noteKeeper(ownership.Read(live, o.FieldManager))
	return merge.Object(o.manifest, live, options)
}

// put writes the merged object if it differs from the live one, and returns what is there then. afresh has the server
// forget who set which field.
func (o *object) put(live *unstructured.Unstructured, afresh bool) (*unstructured.Unstructured, error) {
	merged, err := o.merged(live)
	if err != nil {
		return nil, err
	}
	if afresh {
		merged.SetManagedFields([]metav1.ManagedFieldsEntry{{}}) // none at all would mean that they stay
	} else if sameContent(merged, live) {
		return live, nil
	}
	foreign, err := ownership.Read(live, o.FieldManager).Foreign(o.exempt)
	if err != nil {
		foreign = nil // it serves to tell who is overruled
	}
	if err := o.target.Client.Update(o.ctx, merged, client.FieldOwner(o.FieldManager)); err != nil {
		return nil, err
	}
	if merged.GetResourceVersion() != live.GetResourceVersion() {
		o.takenBack(foreign)
	}
	return merged, nil
}

// updateWhole updates an object that was applied. An apply leaves what nobody owns: fields that the server set to
// defaults of a former manifest, or that were left when their owner went. Where that changes anything, the object is
// applied once more, so that what the update wrote is ours like all else. Fields that an update may not change stay as
// the apply left them.
func (o *object) updateWhole() (done bool, err error) {
	uid := o.uid
	live, err := o.read()
	if err != nil {
		return false, err
	}
	if live == nil || live.GetUID() != uid {
		return false, nil // it went meanwhile
	}
	written, err := o.put(live, false)
	switch {
	case apierrors.IsConflict(err):
		o.whole = false
		return false, nil
	case apierrors.IsNotFound(err):
		return false, nil
	case apierrors.IsInvalid(err), apierrors.IsForbidden(err), apierrors.IsBadRequest(err):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("updating what nobody owns: %w", o.discreet(err))
	}
	return written.GetResourceVersion() == live.GetResourceVersion(), nil
}

// mayPassAsUpdate tells of the refusal of an apply whether an update may pass: the server merges an apply into what the
// object has, and the result, or what it says about its owners, may be what is refused.
func mayPassAsUpdate(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsInternalError(err) || apierrors.IsAlreadyExists(err)
}

// overcome deals with an object whose apply is refused. Nulls are left out, immutable fields get their live value, and
// then it is updated as a whole, whose content is the manifest's whatever the object had, and applied once more to own it.
// If an apply is refused nevertheless, its record of owners is written afresh; if that does not help either, the updated
// object stays as it is. One that cannot be updated may have to make room for a new one. done and a nil error have the
// meaning of attempt.
func (o *object) overcome(live *unstructured.Unstructured, refusal error) (done bool, err error) {
	if manifest, changed := withoutNulls(o.manifest.Object); changed {
		o.manifest = &unstructured.Unstructured{Object: manifest}
		return false, nil
	}
	if live == nil {
		if o.look || merge.NeedsLive(o.manifest, o.options, o.uid != "") {
			return false, refusal // it does not exist, so this is not an update
		}
		if live, err = o.read(); err != nil {
			return false, err
		}
		if live == nil {
			return false, refusal
		}
		o.look = true
		changed, err := o.keepsMore(live)
		if err != nil || changed {
			return false, err
		}
	}
	written, err := o.put(live, o.refused > 0)
	switch {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return false, nil // look again
	case apierrors.IsInvalid(err):
		return o.replace(live, refusal)
	case err != nil:
		return false, refusal
	}
	o.refused++
	if o.refused <= 2 {
		return false, nil
	}
	o.accept(written, ownership.Observe(written, o.FieldManager))
	return true, nil
}

// keepsMore tells whether the rules for live values change what is sent.
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

// withoutNulls returns a node without fields that are null, and whether there were any. Servers take them out of what is
// created or updated, and not out of what is applied. Only what differs is a copy.
func withoutNulls(fields map[string]any) (left map[string]any, changed bool) {
	left = fields
	put := func(name string, value any) {
		if !changed {
			left, changed = maps.Clone(fields), true
		}
		left[name] = value
	}
	for name, value := range fields {
		switch value := value.(type) {
		case nil:
			put(name, nil)
			delete(left, name)
		case map[string]any:
			if below, less := withoutNulls(value); less {
				put(name, below)
			}
		case []any:
			if items, less := withoutNullsIn(value); less {
				put(name, items)
			}
		}
	}
	return left, changed
}

// withoutNullsIn does that for the items of a list. Items that are null stay.
func withoutNullsIn(items []any) (left []any, changed bool) {
	left = items
	for i, item := range items {
		var less bool
		switch value := item.(type) {
		case map[string]any:
			item, less = withoutNulls(value)
		case []any:
			item, less = withoutNullsIn(value)
		}
		if less {
			if !changed {
				left, changed = slices.Clone(items), true
			}
			left[i] = item
		}
	}
	return left, changed
}
