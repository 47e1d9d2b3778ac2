package apply

import (
	"errors"
	"net/http"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
	record := ownership.Read(live, o.FieldManager)
	options := o.options
	options.ControlPlane = noteKeeper(record)
	merged, err := merge.Object(o.manifest, live, options)
	if err != nil {
		return false, err
	}
	if sameContent(merged, live) {
		o.accept(live, record.State())
		return true, nil
	}
	foreign, err := record.Foreign(o.exempt)
	if err != nil {
		foreign = nil // it serves to tell who is overruled
	}
	err = o.target.Client.Update(o.ctx, merged, client.FieldOwner(o.FieldManager))
	switch {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return false, nil // look again
	case apierrors.IsInvalid(err):
		return o.replace(live, o.discreet(err))
	case err != nil:
		return false, o.discreet(err)
	}
	if merged.GetResourceVersion() != live.GetResourceVersion() {
		o.out.TakenBack = append(o.out.TakenBack, foreign...)
	}
	o.accept(merged, ownership.Observe(merged, o.FieldManager))
	return true, nil
}
